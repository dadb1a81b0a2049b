"""The environment: what the declared sources and the warehouse need to be told."""

import os
from urllib.parse import urlsplit

from orchestration.checks.finding import Finding, Severity
from orchestration.settings import DEMO_PSEUDONYM_KEY, DEMO_TOKEN, Settings

SUBJECT = "environment"


def source_environment(settings: Settings) -> dict[str, str]:
    """The environment as sources see it: the demo service stands in while none is configured."""
    environ = dict(os.environ)
    if settings.uses_demo_api:
        environ.setdefault("SLUICE_FLIGHTS_API_URL", "http://127.0.0.1")
        environ.setdefault("SLUICE_FLIGHTS_API_TOKEN", DEMO_TOKEN)
        environ.setdefault("SLUICE_PSEUDONYM_KEY", DEMO_PSEUDONYM_KEY)
    return environ


def check_environment(settings: Settings) -> list[Finding]:
    """The warehouse URL can be used, and the stage roles can get passwords from something."""
    if settings.warehouse_url is None:
        return []
    url = urlsplit(settings.warehouse_url.get_secret_value())
    if url.scheme not in ("postgresql", "postgres") or not url.path.strip("/"):
        return [
            Finding(
                Severity.ERROR,
                SUBJECT,
                SUBJECT,
                "SLUICE_WAREHOUSE_URL is not the URL of a Postgres database",
                "write postgresql://owner:password@host:5432/database",
            )
        ]
    if settings.roles_secret is None:
        return [
            Finding(
                Severity.WARNING,
                SUBJECT,
                SUBJECT,
                "SLUICE_ROLES_SECRET is not set, so the passwords of the stage roles follow from "
                "the owner's and change with it",
                "set it to a long random text, then run `sluice init`",
            )
        ]
    return []

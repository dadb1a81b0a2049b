"""The profiles.yml files that dbt logs in with: one for each attempt, one for the analyst.

Both hold literal values, so both are readable by their owner only (mode 0600). They are JSON, which
is YAML that cannot be broken by a password.
"""

import json
import os
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict

PROFILE = "sluice"
TARGET = "warehouse"
PARSE_SCHEMA = "sluice"
_PASSED_ON = ("sslmode", "sslcert", "sslkey", "sslrootcert", "connect_timeout", "keepalives_idle")
_NUMBERS = ("connect_timeout", "keepalives_idle")


def write_session_profile(folder: Path, url: str, threads: int) -> None:
    """`folder`/profiles.yml for one attempt; its target never changes, so neither do keys.

    Who works stands in the session's options: a name in here would overrule it.
    """
    _write(folder / "profiles.yml", _profile(url, PARSE_SCHEMA, threads, application=""))


def write_analyst_profile(path: Path, url: str, schema: str, threads: int = 4) -> None:
    """A profiles.yml with which plain dbt works in `schema`, as the user of `url`, no exports."""
    _write(path, _profile(url, schema, threads, application="dbt"))


def session_options(url: str) -> str:
    """The libpq `options` of the URL; a profile has no place for them, PGOPTIONS has."""
    return str(conninfo_to_dict(url).get("options") or "")


def database_of(url: str) -> str:
    return str(conninfo_to_dict(url).get("dbname") or "")


def target_values(url: str, threads: int) -> dict[str, Any]:
    """What Jinja may read in `target` in a session; dbt shows it no password."""
    output = _output(url, PARSE_SCHEMA, threads, application="")
    return {name: value for name, value in output.items() if name != "password"}


def _profile(url: str, schema: str, threads: int, *, application: str) -> dict[str, Any]:
    output = _output(url, schema, threads, application=application)
    return {PROFILE: {"target": TARGET, "outputs": {TARGET: output}}}


def _output(url: str, schema: str, threads: int, *, application: str) -> dict[str, Any]:
    given = conninfo_to_dict(url)
    output: dict[str, Any] = {
        "type": "postgres",
        # An empty host leaves the choice to libpq, as a URL without one does.
        "host": given.get("host") or "",
        "port": int(str(given.get("port") or 5432).partition(",")[0]),
        "user": given.get("user"),
        # dbt insists on a password; a server that trusts the connection does not look at it.
        "password": given.get("password") or "trusted",
        "dbname": given.get("dbname"),
        "schema": schema,
        "threads": threads,
        "retries": 2,
        "application_name": application,
    }
    for name in _PASSED_ON:
        if (value := given.get(name)) is not None:
            output[name] = int(value) if name in _NUMBERS else value
    return output


def _write(path: Path, profile: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(profile, file, indent=2)
        file.write("\n")
    temporary.replace(path)

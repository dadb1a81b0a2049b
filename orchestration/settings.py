"""The one place that reads the environment. What is missing is said all at once, at start.

Secrets are `SecretStr`, so that no log or error shows them.
"""

import os
from functools import cached_property
from pathlib import Path

from dotenv import load_dotenv
from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

# The demo service serves public data on the loopback interface; its token guards nothing.
DEMO_TOKEN = "demo-token"  # noqa: S105
DEMO_PSEUDONYM_KEY = "demo-pseudonym-key-not-for-real-data"


class Settings(BaseSettings):
    """Environment variables, all prefixed SLUICE_; `.env.example` explains each one."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_", extra="ignore", frozen=True, env_ignore_empty=True
    )

    warehouse_url: SecretStr | None = None
    roles_secret: SecretStr | None = None
    analyst_url: SecretStr | None = None
    reviewer_url: SecretStr | None = None
    password_runner: SecretStr | None = None
    password_extractor: SecretStr | None = None
    password_transformer: SecretStr | None = None
    password_gate: SecretStr | None = None
    password_publisher: SecretStr | None = None
    password_reviewer: SecretStr | None = None
    password_analyst: SecretStr | None = None
    password_webhook: SecretStr | None = None
    password_console: SecretStr | None = None
    project_dir: Path = Path(__file__).resolve().parent.parent
    home: Path | None = None
    cache_dir: Path | None = None
    flights_api_url: str | None = None
    flights_api_token: SecretStr | None = None
    pseudonym_key: SecretStr | None = None
    console_password: SecretStr | None = None
    metrics_token: SecretStr | None = None
    console_url: str | None = None
    alert_routes: SecretStr | None = None
    workflow: str | None = None
    log_level: str = "INFO"

    @cached_property
    def home_dir(self) -> Path:
        """Where the embedded server, logs and spooled pages live."""
        return (self.home or self.project_dir / ".sluice").absolute()

    @property
    def dbt_cache_dir(self) -> Path:
        """What dbt said of a project, kept for the next process; may be deleted at any time."""
        return (self.cache_dir or self.home_dir / "cache").absolute() / "dbt"

    @property
    def role_passwords(self) -> dict[str, str]:
        """Role without its prefix → its password, for roles that have one of their own."""
        names = [name for name in type(self).model_fields if name.startswith("password_")]
        found = {name.removeprefix("password_"): getattr(self, name) for name in names}
        return {name: secret.get_secret_value() for name, secret in found.items() if secret}

    @property
    def pipelines_dir(self) -> Path:
        return self.project_dir / "orchestration" / "pipelines"

    @property
    def dbt_project_dir(self) -> Path:
        return self.project_dir / "dbt_project"

    @property
    def suites_dir(self) -> Path:
        return self.project_dir / "expectations" / "suites"

    @property
    def is_embedded(self) -> bool:
        return self.warehouse_url is None

    @property
    def uses_demo_api(self) -> bool:
        """While no flights source is configured, the demo service stands in for it."""
        return self.flights_api_url is None


def load_settings() -> Settings:
    """Settings from the environment; `.env` in the project directory fills in what it lacks.

    The file is read into `os.environ`, so that sources find their own variables there too.
    """
    project = Path(
        os.environ.get("SLUICE_PROJECT_DIR") or Settings.model_fields["project_dir"].default
    )
    if (project / ".env").is_file():
        load_dotenv(project / ".env", override=False)
    return Settings()

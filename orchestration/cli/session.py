"""What commands start from: settings, a reachable warehouse, and services that run."""

import getpass
import os
import sys
from collections.abc import Callable

import psycopg
from pydantic import ValidationError

from orchestration.errors import ConfigurationError, DestinationFailure
from orchestration.logs import configure_logs
from orchestration.settings import DEMO_PSEUDONYM_KEY, DEMO_TOKEN, Settings, load_settings
from orchestration.warehouse.connections import Role, Warehouse


def read_settings() -> Settings:
    """Raises `ConfigurationError` with everything that is wrong in the environment."""
    try:
        return load_settings()
    except ValidationError as error:
        wrong = "; ".join(
            f"SLUICE_{'_'.join(map(str, problem['loc'])).upper()}: {problem['msg']}"
            for problem in error.errors(include_input=False, include_url=False)
        )
        raise ConfigurationError(f"{wrong}; see .env.example", code="environment") from None


def prepare_logs(settings: Settings) -> None:
    """JSON lines to standard error, or, while a person watches progress there, to a file."""
    watched = sys.stderr.isatty()
    configure_logs(
        settings.log_level, file=settings.home_dir / "logs" / "sluice.jsonl", quiet_stderr=watched
    )


def open_warehouse(settings: Settings, *, start: bool = False) -> Warehouse:
    """The warehouse; the embedded server is started only when asked to.

    Raises `ConfigurationError` when it does not run.
    """
    secret = settings.roles_secret.get_secret_value() if settings.roles_secret else None
    if settings.warehouse_url is not None:
        return Warehouse(
            settings.warehouse_url.get_secret_value(), secret, passwords=_role_passwords(settings)
        )
    from orchestration.warehouse.embedded import EmbeddedServer
    from orchestration.warehouse.embedded_install import EmbeddedServerError

    server = EmbeddedServer(settings.home_dir)
    try:
        if start:
            return Warehouse(server.start(), secret)
        if not server.is_running():
            raise ConfigurationError(
                "the embedded warehouse does not run; start it with: sluice up",
                code="warehouse_down",
            )
        return Warehouse(server.url(), secret)
    except EmbeddedServerError as error:
        raise DestinationFailure(str(error), code="embedded_server", transient=False) from error


def _role_passwords(settings: Settings) -> dict[Role, str]:
    return {Role(f"sluice_{name}"): given for name, given in settings.role_passwords.items()}


def open_as(settings: Settings, role: Role) -> Warehouse:
    """The warehouse for an analyst or a reviewer: by a login of their own, if one is given.

    Raises like `open_warehouse`.
    """
    own = {Role.ANALYST: settings.analyst_url, Role.REVIEWER: settings.reviewer_url}.get(role)
    if own is None:
        return open_warehouse(settings)
    return Warehouse(own.get_secret_value(), login=role)


def start_services(settings: Settings, say: Callable[[str], None]) -> Warehouse:
    """Starts what is not running, brings the warehouse up to date, and tells sources where to look."""
    from orchestration.warehouse.setup import is_set_up, set_up

    warehouse = open_warehouse(settings, start=True)
    ensure_sources(settings)
    if not is_set_up(warehouse):
        say("bringing the warehouse up to date")
        for warning in set_up(warehouse).warnings:
            say(f"warning: {warning}")
    prepare_analyst(settings, warehouse)
    return warehouse


def ensure_sources(settings: Settings) -> None:
    """While no flights source is configured the demo service stands in, with demo secrets."""
    if not settings.uses_demo_api:
        return
    from orchestration.services import ServiceError, start_demo_api

    token = settings.flights_api_token
    value = token.get_secret_value() if token else DEMO_TOKEN
    try:
        url = start_demo_api(settings.home_dir, value)
    except ServiceError as error:
        raise ConfigurationError(str(error), code="demo_api") from error
    os.environ["SLUICE_FLIGHTS_API_URL"] = url
    os.environ["SLUICE_FLIGHTS_API_TOKEN"] = value
    if settings.pseudonym_key is None:
        os.environ["SLUICE_PSEUDONYM_KEY"] = DEMO_PSEUDONYM_KEY


def prepare_analyst(settings: Settings, warehouse: Warehouse) -> None:
    """dbt's profile for the analyst at this machine (git ignores it), and a schema to build in."""
    from orchestration.warehouse.analysts import add_stand_ins
    from orchestration.warehouse.connections import Role
    from orchestration.warehouse.dbt.profile import write_analyst_profile
    from orchestration.warehouse.setup import analyst_schema

    write_analyst_profile(
        settings.dbt_project_dir / "profiles.yml", warehouse.url(Role.ANALYST), analyst_schema()
    )
    add_stand_ins(warehouse, analyst_schema())


def deciding(settings: Settings) -> psycopg.Connection:
    """A connection of the reviewer's that says who gives the command, for what is kept for ever.

    In autocommit. A login of the reviewer's own says it by itself.
    """
    warehouse = open_as(settings, Role.REVIEWER)
    if warehouse.login is not None:
        return warehouse.connect(Role.REVIEWER, autocommit=True)
    operator = operator_name(settings, warehouse)
    return warehouse.connect(Role.REVIEWER, autocommit=True, **{"sluice.operator": operator})


def operator_name(settings: Settings, warehouse: Warehouse) -> str:
    """Who gives this command, as it is kept with what an operator did.

    The login of the warehouse's URL. With the embedded server that is the same for everybody, so
    the user of the operating system is added.
    """
    with warehouse.connect(autocommit=True) as connection:
        row = connection.execute("select session_user").fetchone()
    login = str(row[0]) if row else "unknown"
    if settings.warehouse_url is not None:
        return login
    return f"{login} ({_system_user()})"


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container may run under a number that has no name.
        return f"uid {os.getuid()}"

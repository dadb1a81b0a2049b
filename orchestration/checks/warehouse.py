"""The warehouse: reachable, migrated, with every role. Nothing is started or changed here."""

import psycopg

from orchestration.checks.finding import Finding, Severity
from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Role
from orchestration.warehouse.migrations import pending_migrations
from orchestration.warehouse.roles import READER_ROLE, STORE_ROLE

SUBJECT = "warehouse"
_MINIMUM_VERSION = 150_000


def check_warehouse(connection: psycopg.Connection) -> list[Finding]:
    """Server version, migrations and roles, seen through the owner's connection."""
    version = connection.info.server_version
    if version < _MINIMUM_VERSION:
        message = f"the server is Postgres {version // 10_000}, Sluice needs 15 or newer"
        return [_finding(Severity.ERROR, message, "point SLUICE_WAREHOUSE_URL at a newer server")]
    return check_roles(connection) + check_migrations(connection)


def check_roles(connection: psycopg.Connection) -> list[Finding]:
    """Every role that a stage logs in as exists."""
    wanted = [STORE_ROLE, READER_ROLE, *(role.value for role in Role)]
    rows = connection.execute(
        "select name from unnest(%s::text[]) as name "
        "where not exists (select from pg_roles where rolname = name) order by name",
        [wanted],
    ).fetchall()
    missing = ", ".join(name for (name,) in rows)
    if not missing:
        return []
    message = f"the warehouse lacks roles: {missing}"
    return [_finding(Severity.WARNING, message, "run `sluice init`")]


def check_migrations(connection: psycopg.Connection) -> list[Finding]:
    """The schema `ops` is the one that this code knows."""
    try:
        pending = pending_migrations(connection)
    except ConfigurationError as error:
        message, _, hint = error.message.partition("; ")
        return [_finding(Severity.ERROR, message, hint)]
    if not pending:
        return []
    message = f"{len(pending)} migrations of the warehouse are pending"
    return [_finding(Severity.WARNING, message, "run `sluice init`")]


def unreachable(reason: str, hint: str) -> Finding:
    """The finding for a warehouse that cannot be looked at."""
    return _finding(Severity.WARNING, f"the warehouse was not checked: {reason}", hint)


def _finding(severity: Severity, message: str, hint: str) -> Finding:
    return Finding(severity, SUBJECT, SUBJECT, message, hint)

"""The roles of the stages: made once, given a password each, never a right of their own here.

Rights are granted by the migrations; here roles only come to exist and to be able to log in.
"""

import psycopg
from psycopg import sql

from orchestration.warehouse.connections import Role, Warehouse

STORE_ROLE = "sluice_store"
READER_ROLE = "sluice_reader"
_HIDDEN_STATISTICS = (
    "the publisher cannot see other sessions, so a publication cannot tell whether a slot is still "
    f"being read; ask an administrator to run: grant pg_read_all_stats to {Role.PUBLISHER}"
)

_LOGIN_SETTINGS: dict[Role, dict[str, str]] = {
    Role.GATE: {"default_transaction_read_only": "on"},
    Role.CONSOLE: {"default_transaction_read_only": "on"},
    # Plain dbt has no place for session options, and its results must not depend on the server's.
    Role.ANALYST: {
        "idle_in_transaction_session_timeout": "10min",
        "timezone": "UTC",
        "datestyle": "ISO",
    },
}


def ensure_roles(warehouse: Warehouse, connection: psycopg.Connection) -> list[str]:
    """Creates missing roles and sets the passwords; returns what an administrator must still do.

    Needs the owner's connection with CREATEROLE, in autocommit or a transaction of its own. Roles
    belong to the whole server, so another process may be doing the same: that is not an error.
    """
    for name in [STORE_ROLE, READER_ROLE, *Role]:
        _create(connection, name, login=name in set(Role))
    for role in Role:
        if (password := warehouse.role_password(role)) is not None:
            _set_password(connection, role, password)
        for setting, value in _LOGIN_SETTINGS.get(role, {}).items():
            connection.execute(
                sql.SQL("alter role {} set {} = {}").format(
                    sql.Identifier(role), sql.Identifier(setting), sql.Literal(value)
                )
            )
    _grant(connection, Role.TRANSFORMER, to=STORE_ROLE)
    owner = connection.execute("select current_user").fetchone()
    for name in [STORE_ROLE, READER_ROLE, *Role]:
        if owner:
            _grant(connection, name, to=owner[0])
    return _grant_statistics(connection)


def _create(connection: psycopg.Connection, name: str, *, login: bool) -> None:
    exists = connection.execute("select 1 from pg_roles where rolname = %s", [name]).fetchone()
    if exists:
        return
    kind = sql.SQL("login" if login else "nologin")
    try:
        with connection.transaction():
            connection.execute(sql.SQL("create role {} {}").format(sql.Identifier(name), kind))
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        pass


def _set_password(connection: psycopg.Connection, role: Role, password: str) -> None:
    # Encrypted here, so that the server's log and pg_stat_statements never see the password.
    encrypted = connection.pgconn.encrypt_password(
        password.encode(), role.value.encode(), b"scram-sha-256"
    )
    connection.execute(
        sql.SQL("alter role {} password {}").format(
            sql.Identifier(role), sql.Literal(encrypted.decode())
        )
    )


def _grant(connection: psycopg.Connection, granted: str, *, to: str) -> None:
    member = connection.execute(
        "select pg_has_role(%s, %s, 'usage') and not rolsuper from pg_roles where rolname = %s",
        [to, granted, to],
    ).fetchone()
    if member and member[0]:
        return
    connection.execute(
        sql.SQL("grant {} to {}").format(sql.Identifier(granted), sql.Identifier(to))
    )


def _grant_statistics(connection: psycopg.Connection) -> list[str]:
    try:
        with connection.transaction():
            _grant(connection, "pg_read_all_stats", to=Role.PUBLISHER)
    except psycopg.errors.InsufficientPrivilege:
        return [_HIDDEN_STATISTICS]
    return []

"""How commands that only look reach the warehouse: as the runner, read-only."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from orchestration.cli.session import (
    open_for_analyst,
    open_for_reviewer,
    open_warehouse,
    read_settings,
)
from orchestration.errors import ConfigurationError
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role


@contextmanager
def reading(role: Role = Role.RUNNER) -> Iterator[psycopg.Connection]:
    """A read-only connection. Raises `ConfigurationError` before the first `sluice init`."""
    settings = read_settings()
    opened = {Role.ANALYST: open_for_analyst, Role.REVIEWER: open_for_reviewer}
    warehouse = opened.get(role, open_warehouse)(settings)
    try:
        connection = warehouse.connect(role, autocommit=True, default_transaction_read_only="on")
    except psycopg.OperationalError as error:
        if "does not exist" in str(error) or "authentication failed" in str(error):
            raise ConfigurationError(
                "the warehouse is not set up for Sluice, or its role passwords differ; "
                "run: sluice init",
                code="not_initialized",
            ) from None
        raise
    with connection:
        try:
            yield connection
        except (
            psycopg.errors.UndefinedTable,
            psycopg.errors.UndefinedColumn,
            psycopg.errors.UndefinedFunction,
        ):
            raise ConfigurationError(
                "the warehouse is not set up for this Sluice; run: sluice init",
                code="not_initialized",
            ) from None


def rows_of(
    connection: psycopg.Connection, name: str, parameters: Sequence[Any] | Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Rows of a named query as dictionaries."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query(name), parameters).fetchall()


def fetch(
    connection: psycopg.Connection, statement: LiteralString, parameters: Sequence[Any] = ()
) -> list[dict[str, Any]]:
    """Rows as dictionaries."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, list(parameters)).fetchall()

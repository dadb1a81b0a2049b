"""Rows as dictionaries: of a named query, or of a statement."""

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from orchestration.sql.queries import query

Parameters = Sequence[Any] | Mapping[str, Any]


def rows_of(
    connection: psycopg.Connection, name: str, parameters: Parameters
) -> list[dict[str, Any]]:
    """Rows of a named query."""
    return fetch(connection, query(name), parameters)


def fetch(
    connection: psycopg.Connection, statement: LiteralString, parameters: Parameters = ()
) -> list[dict[str, Any]]:
    """Rows of a statement."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(statement, parameters).fetchall()

"""Databases of their own for tests, each a copy of one that is set up and empty."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer


@contextmanager
def cloned_warehouse(server: EmbeddedServer, template: str) -> Iterator[Warehouse]:
    """A warehouse of its own, migrated and with all roles, while the context lasts."""
    name = f"test_{secrets.token_hex(6)}"
    _execute(
        server,
        sql.SQL("create database {} template {} owner sluice_owner strategy file_copy").format(
            sql.Identifier(name), sql.Identifier(template)
        ),
    )
    yield Warehouse(server.url(database=name))
    _execute(server, sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _execute(server: EmbeddedServer, statement: sql.Composed) -> None:
    """In a session of its own: a test may have restarted the server since the last one."""
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(statement)

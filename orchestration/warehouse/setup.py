"""Bringing a warehouse up to date: roles, migrations, staging tables, views, analysts' schemas.

Everything is idempotent and safe to run from two processes at once; only the owner may do it.
"""

import getpass
import os
import re
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from ingestion.contracts import BOOKKEEPING
from ingestion.resources import Resource
from ingestion.sources import list_sources
from ingestion.staging import prepare_staging
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.live import ensure_live_views
from orchestration.warehouse.migrations import migrate, pending_migrations
from orchestration.warehouse.names import identifier
from orchestration.warehouse.roles import ensure_roles

_MINIMUM_LOCKS = 256
_LOCK = "sluice setup"


@dataclass(frozen=True)
class Setup:
    """What was done, and what an administrator should still do."""

    migrations: list[str] = field(default_factory=list)
    live_views: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def set_up(warehouse: Warehouse) -> Setup:
    """Raises `ConfigurationError` when the database is newer than this code."""
    resources = all_resources()
    with warehouse.connect(autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(hashtextextended(%s, 0))", [_LOCK])
        warnings = [*ensure_roles(warehouse, connection), *_small_lock_table(connection)]
        applied = migrate(connection)
        prepare_staging(
            warehouse.url(),
            resources,
            loader=Role.EXTRACTOR,
            readers=[Role.GATE, Role.TRANSFORMER],
            sweeper=Role.EXTRACTOR,
        )
        views = ensure_live_views(
            connection,
            {item.full_name: [*item.contract.columns, *BOOKKEEPING] for item in resources},
        )
        _ensure_analyst_schema(connection, analyst_schema())
    return Setup([f"{item.number:04d}_{item.name}" for item in applied], views, warnings)


def is_set_up(warehouse: Warehouse) -> bool:
    """Whether `set_up` would change nothing. Raises like it, also when roles cannot log in."""
    wanted = {
        (item.staging_table, column)
        for item in all_resources()
        for column in [*item.contract.columns, *BOOKKEEPING]
    }
    with warehouse.connect(autocommit=True) as connection:
        if pending_migrations(connection):
            return False
        found = set(
            connection.execute(
                "select c.relname, a.attname from pg_attribute a join pg_class c on c.oid = attrelid "
                "where c.relnamespace = to_regnamespace('live') and a.attnum > 0"
            ).fetchall()
        )
        schema = connection.execute(
            "select to_regnamespace(%s) is not null", [analyst_schema()]
        ).fetchone()
        return wanted <= found and bool(schema and schema[0])


def all_resources() -> list[Resource]:
    """Every resource of every source that this checkout knows."""
    return [resource for source in list_sources() for resource in source.resources]


def analyst_schema() -> str:
    """`dev_<name>` of the person at this machine; `SLUICE_ANALYST` names someone else."""
    return developer_schema(os.environ.get("SLUICE_ANALYST") or getpass.getuser())


def developer_schema(name: str) -> str:
    """`dev_<name>`, with only what a schema's name may have."""
    return "dev_" + (re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_") or "analyst")[:40]


def _ensure_analyst_schema(connection: psycopg.Connection, name: str) -> None:
    connection.execute(
        sql.SQL("create schema if not exists {} authorization {}").format(
            identifier(name), sql.Identifier(Role.ANALYST)
        )
    )


def _small_lock_table(connection: psycopg.Connection) -> list[str]:
    row = connection.execute("show max_locks_per_transaction").fetchone()
    if row is None or int(row[0]) >= _MINIMUM_LOCKS:
        return []
    warning = (
        f"the server's max_locks_per_transaction is {row[0]}; readers of many versions at once may "
        f"run out of locks, so ask an administrator to raise it to {_MINIMUM_LOCKS}"
    )
    return [warning]

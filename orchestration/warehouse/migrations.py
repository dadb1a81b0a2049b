"""Numbered SQL migrations of the warehouse, applied once each, in order, under a lock.

A file that changed after it was applied, or a database newer than this code, is refused before
anything is touched.
"""

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

import psycopg

from orchestration.errors import ConfigurationError

_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_LOCK = 0x5_1_0_1_C_E
_BOOK = """
create schema if not exists ops;
create table if not exists ops.schema_migrations (
    number integer primary key,
    name text not null,
    checksum text not null,
    applied_at timestamptz not null default clock_timestamp()
)
"""


@dataclass(frozen=True)
class Migration:
    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


def load_migrations() -> list[Migration]:
    """All migrations that this code knows, by number, without a gap."""
    found = [
        Migration(int(match[1]), match[2], entry.read_text())
        for entry in resources.files("orchestration.sql.migrations").iterdir()
        if (match := _NAME.fullmatch(entry.name))
    ]
    return sorted(found, key=lambda migration: migration.number)


def applied_migrations(connection: psycopg.Connection) -> dict[int, str]:
    """number → checksum of what the database has; empty before the first `init`."""
    exists = connection.execute("select to_regclass('ops.schema_migrations')").fetchone()
    if not exists or exists[0] is None:
        return {}
    rows = connection.execute("select number, checksum from ops.schema_migrations").fetchall()
    return dict(rows)


def pending_migrations(connection: psycopg.Connection) -> list[Migration]:
    """What `migrate` would apply now. Raises `ConfigurationError` on a mismatch."""
    known = load_migrations()
    applied = applied_migrations(connection)
    if applied and max(applied) > max(migration.number for migration in known):
        raise ConfigurationError(
            f"the warehouse was migrated by a newer Sluice (migration {max(applied)}); "
            "update this checkout and try again",
            code="database_newer",
        )
    for migration in known:
        checksum = applied.get(migration.number)
        if checksum is not None and checksum != migration.checksum:
            raise ConfigurationError(
                f"migration {migration.number:04d}_{migration.name} differs from the one that was "
                "applied; restore the file and put the change into a new migration",
                code="migration_changed",
            )
    return [migration for migration in known if migration.number not in applied]


def migrate(connection: psycopg.Connection) -> list[Migration]:
    """Applies what is pending, each in its own transaction; returns what was applied.

    Needs the owner's connection in autocommit. Two processes at once: the second waits, then finds
    nothing to do.
    """
    connection.execute("select pg_advisory_lock(%s)", [_LOCK])
    try:
        connection.execute(_BOOK)
        pending = pending_migrations(connection)
        for migration in pending:
            with connection.transaction():
                connection.execute(migration.text.encode())
                connection.execute(
                    "insert into ops.schema_migrations (number, name, checksum) values (%s, %s, %s)",
                    [migration.number, migration.name, migration.checksum],
                )
        return pending
    finally:
        connection.execute("select pg_advisory_unlock(%s)", [_LOCK])

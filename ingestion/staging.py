"""Makes the staging tables what the loader needs, and says who may do what with them.

The tables are declared here, from the contracts, so that the loader needs no right to create
anything. Preparing is idempotent, adds columns that a contract gained, and refuses a column of
another type.
"""

from collections.abc import Sequence

import psycopg
from psycopg import sql

from ingestion.contracts import BOOKKEEPING
from ingestion.errors import IngestionConfigurationError
from ingestion.resources import Resource

SCHEMA = "staging"
LOADER_TABLES = ("_dlt_loads", "_dlt_version")
_LOCK = 0x57A61
_DLT_TYPES = {
    "text": "character varying",
    "bigint": "bigint",
    "timestamp": "timestamp with time zone",
}
_COLUMNS = """
select table_name, column_name, data_type from information_schema.columns where table_schema = %s
"""


def prepare_staging(
    url: str,
    resources: Sequence[Resource],
    *,
    loader: str | None = None,
    readers: Sequence[str] = (),
    sweeper: str | None = None,
) -> None:
    """Creates what is missing in schema staging and grants, in one transaction under a lock.

    `url` is the owner's. The role `loader` may insert and select, `readers` select, `sweeper`
    select and delete; nobody may update or truncate. Raises `IngestionConfigurationError` when a
    column exists with another type, and psycopg's errors.
    """
    with psycopg.connect(url, connect_timeout=10) as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
        connection.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(SCHEMA)))
        tables = {resource.staging_table: resource.contract.sql_types() for resource in resources}
        existing = _existing_columns(connection)
        if not existing.keys() >= set(LOADER_TABLES):
            tables |= _loader_tables()
        for table, types in tables.items():
            _prepare_table(connection, table, types, existing.get(table))
        names = [*(resource.staging_table for resource in resources)]
        _grant(connection, names, "insert, select", [loader] if loader else [])
        _grant(connection, LOADER_TABLES, "insert, select", [loader] if loader else [])
        _grant(connection, names, "select", readers)
        _grant(connection, names, "select, delete", [sweeper] if sweeper else [])


def _existing_columns(connection: psycopg.Connection) -> dict[str, dict[str, str]]:
    existing: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(_COLUMNS, [SCHEMA]).fetchall():
        existing.setdefault(table, {})[column] = kind
    return existing


def _prepare_table(
    connection: psycopg.Connection,
    table: str,
    types: dict[str, str],
    existing: dict[str, str] | None,
) -> None:
    if existing is None:
        columns = sql.SQL(", ").join(_column(name, kind) for name, kind in types.items())
        connection.execute(sql.SQL("create table {} ({})").format(_table(table), columns))
    else:
        for name, kind in types.items():
            if existing.get(name, kind) != kind:
                raise IngestionConfigurationError(
                    f"staging.{table}.{name} is {existing[name]} and the contract makes it {kind}; "
                    "give the field a new name, or migrate the column",
                    code="staging_mismatch",
                )
            if name not in existing:
                connection.execute(
                    sql.SQL("alter table {} add column {}").format(
                        _table(table), _column(name, kind)
                    )
                )
    if table not in LOADER_TABLES:
        connection.execute(
            sql.SQL("create index if not exists {} on {} (_artifact_id)").format(
                sql.Identifier(f"{table}__artifact"), _table(table)
            )
        )


def _column(name: str, kind: str) -> sql.Composed:
    required = name in BOOKKEEPING
    # The types come from a closed list of this package, never from outside.
    rest = f"{kind} not null" if required else kind
    return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(rest))


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)


def _loader_tables() -> dict[str, dict[str, str]]:
    from ingestion.dlt_runtime import import_dlt

    schema = import_dlt().Schema(SCHEMA)
    declared = {table["name"]: table["columns"] for table in schema.dlt_tables()}
    return {
        table: {name: _DLT_TYPES[column["data_type"]] for name, column in declared[table].items()}
        for table in LOADER_TABLES
    }


def _grant(
    connection: psycopg.Connection, tables: Sequence[str], rights: str, roles: Sequence[str]
) -> None:
    for role in roles:
        grantee = sql.Identifier(role)
        connection.execute(
            sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(SCHEMA), grantee)
        )
        connection.execute(
            sql.SQL("grant {} on {} to {}").format(
                sql.SQL(rights),
                sql.SQL(", ").join(_table(table) for table in tables),
                grantee,
            )
        )

"""Measures artifacts in the warehouse: how many rows, and a checksum of their content.

The checksum does not depend on the order of rows or columns, nor on session settings, and a column
that is null everywhere does not change it: an artifact keeps its checksum when its contract gains a
field.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from ingestion.resources import Resource
from ingestion.staging import SCHEMA

_SEPARATOR = "\x1f"


@dataclass(frozen=True, slots=True)
class Measured:
    """Rows and content checksum of an artifact, as they are in staging now."""

    rows: int
    checksum: str


EMPTY = Measured(0, "0")


def artifact_checksum_sql(resource: Resource) -> sql.Composed:
    """An aggregate over rows of the staging table: text, the sum of 64-bit hashes of the rows.

    The contract's columns alone count, each with its name; bookkeeping columns do not.
    """
    parts = [
        _hashed(column, kind)
        for column, kind in sorted(resource.contract.sql_types().items())
        if column in resource.contract.columns
    ]
    row = sql.SQL("concat_ws({}, {})").format(sql.Literal(_SEPARATOR), sql.SQL(", ").join(parts))
    return sql.SQL(
        "coalesce(sum((('x' || left(md5({}), 16))::bit(64)::bigint)::numeric), 0)::text"
    ).format(row)


def _hashed(column: str, kind: str) -> sql.Composed:
    name, prefix = sql.Identifier(column), sql.Literal(f"{column}=")
    match kind:
        case "character varying":
            # The length keeps a text that looks like another column from being taken for it.
            return sql.SQL("{} || length({}) || ':' || {}").format(prefix, name, name)
        case "timestamp with time zone":
            return sql.SQL("{} || extract(epoch from {})").format(prefix, name)
        case "date":
            return sql.SQL("{} || ({} - date '2000-01-01')").format(prefix, name)
        case _:
            return sql.SQL("{} || {}").format(prefix, name)


def measure_artifacts(
    connection: psycopg.Connection, resource: Resource, artifact_ids: Sequence[str]
) -> dict[str, Measured]:
    """{artifact id: what staging holds of it}, for every id that was asked for, in one query."""
    query = sql.SQL(
        "select _artifact_id, count(*), {} from {} where _artifact_id = any(%s) group by 1"
    ).format(artifact_checksum_sql(resource), sql.Identifier(SCHEMA, resource.staging_table))
    measured = dict.fromkeys(artifact_ids, EMPTY)
    for artifact_id, rows, checksum in connection.execute(query, [list(artifact_ids)]).fetchall():
        measured[artifact_id] = Measured(rows, checksum)
    return measured


def replace_artifact_rows(
    connection: psycopg.Connection, resource: Resource, damaged: str, intact: str, *, partition: str
) -> None:
    """Gives the artifact `damaged` the rows of `intact`, which then has none.

    Runs in the caller's transaction, as a role that may insert into staging and delete from it.
    """
    copy_artifact_rows(connection, resource, damaged, intact, partition=partition)
    delete_artifact_rows(connection, resource, [intact])


def copy_artifact_rows(
    connection: psycopg.Connection, resource: Resource, damaged: str, intact: str, *, partition: str
) -> None:
    """Gives the artifact `damaged`, which is that of `partition`, the rows that `intact` has.

    Runs in the caller's transaction, as a role that may insert into staging and delete from it.
    """
    delete_artifact_rows(connection, resource, [damaged])
    own = {"_artifact_id", "_partition"}
    columns = [name for name in resource.contract.sql_types() if name not in own]
    query = sql.SQL(
        "insert into {table} (_artifact_id, _partition, {columns}) "
        "select %s, %s, {columns} from {table} where _artifact_id = %s"
    ).format(
        table=sql.Identifier(SCHEMA, resource.staging_table),
        columns=sql.SQL(", ").join(sql.Identifier(name) for name in columns),
    )
    connection.execute(query, [damaged, partition, intact])


def delete_artifact_rows(
    connection: psycopg.Connection, resource: Resource, artifact_ids: Sequence[str]
) -> int:
    """Deletes the rows of artifacts that were abandoned before; returns how many.

    Runs in the caller's transaction, as a role that may delete from staging.
    """
    query = sql.SQL("delete from {} where _artifact_id = any(%s)").format(
        sql.Identifier(SCHEMA, resource.staging_table)
    )
    return connection.execute(query, [list(artifact_ids)]).rowcount


def read_artifact_rows(connection: psycopg.Connection, resource: Resource, artifact_id: str) -> Any:
    """The rows of an artifact as an Arrow table in the form of a spooled partition.

    Any role that may read staging. A column that the contract gained since holds nulls.
    """
    import pyarrow as pa

    from ingestion.tables import spool_schema

    schema = spool_schema(resource.contract)
    query = sql.SQL("select {} from {} where _artifact_id = %s").format(
        sql.SQL(", ").join(map(sql.Identifier, schema.names)),
        sql.Identifier(SCHEMA, resource.staging_table),
    )
    rows = connection.execute(query, [artifact_id]).fetchall()
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.names)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)

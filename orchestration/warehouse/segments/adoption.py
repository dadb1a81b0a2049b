"""Segments become part of the store: what they hold is counted, bounded and written down.

Every function belongs into the fenced transaction that adopts the relation.
"""

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import sql

from orchestration.errors import TransformFailure
from orchestration.warehouse.dbt.graph import PARTITION_COLUMN
from orchestration.warehouse.names import identifier, qualified, statement
from orchestration.warehouse.segments.layout import Piece
from orchestration.warehouse.segments.places import IN_STORE, STORE_SCHEMA, Places

_BOUNDED_TYPES = ("date", "timestamp with time zone", "timestamp without time zone")
_BOUND_PREFIX = "sluice_bounds_"


def count_partitions(
    connection: psycopg.Connection,
    model: str,
    segment: str,
    partitions: Mapping[str, str],
    places: Places = IN_STORE,
) -> dict[str, int]:
    """partition → rows in the segment, for each of `partitions`.

    Raises `TransformFailure` (`foreign_partition`) for rows of any other partition.
    """
    rows = connection.execute(
        statement(
            "select {partition}, count(*) from {segment} group by 1",
            partition=identifier(PARTITION_COLUMN),
            segment=places.qualified(segment),
        )
    ).fetchall()
    counts: dict[str | None, int] = dict(rows)
    foreign = sorted(
        "null" if name is None else repr(name) for name in set(counts) - set(partitions)
    )
    if foreign:
        raise TransformFailure(
            f"{model}: has rows with {PARTITION_COLUMN} {', '.join(foreign[:5])}, which was not to be "
            f"built; pass {PARTITION_COLUMN} on from the input that a row comes from, unchanged, then "
            "run the same command again",
            code="foreign_partition",
        )
    return {name: counts.get(name, 0) for name in partitions}


def bound_columns(
    connection: psycopg.Connection, segment: str, columns: Sequence[Mapping[str, str]]
) -> None:
    """CHECK constraints on dates, times and the partition, so that the planner can skip the segment.

    `columns` are {"name", "type"} as the catalogue has them.
    """
    bounded = [
        column
        for column in columns
        if column["type"] in _BOUNDED_TYPES or column["name"] == PARTITION_COLUMN
    ]
    table = qualified(STORE_SCHEMA, segment)
    extremes = connection.execute(
        statement(
            "select {extremes} from {table}",
            # As text: Python has no date for everything that Postgres has one for.
            extremes=sql.SQL(", ").join(
                sql.SQL("min({0})::text, max({0})::text").format(sql.Identifier(column["name"]))
                for column in bounded
            ),
            table=table,
        )
    ).fetchone()
    for position, column in enumerate(bounded):
        least, greatest = (extremes or ())[2 * position : 2 * position + 2]
        if least is not None:
            connection.execute(
                statement(
                    "alter table {table} add constraint {name} check ({column} between "
                    "{least}::{type} and {greatest}::{type})",
                    table=table,
                    name=sql.Identifier(f"{_BOUND_PREFIX}{position}"),
                    column=sql.Identifier(column["name"]),
                    least=sql.Literal(least),
                    greatest=sql.Literal(greatest),
                    # What format_type wrote is SQL.
                    type=sql.SQL(column["type"]),
                )
            )


def drop_bounds(connection: psycopg.Connection, segment: str) -> None:
    """Takes those constraints off a copy that is to hold more."""
    rows = connection.execute(
        "select conname from pg_constraint where conrelid = %s::regclass and starts_with(conname, %s)",
        [f"{STORE_SCHEMA}.{segment}", _BOUND_PREFIX],
    ).fetchall()
    for (name,) in rows:
        connection.execute(
            statement(
                "alter table {table} drop constraint {name}",
                table=qualified(STORE_SCHEMA, segment),
                name=identifier(name),
            )
        )


def record_segment(
    connection: psycopg.Connection,
    segment: str,
    partitions: Mapping[str, str],
    counts: Mapping[str, int],
) -> None:
    """Writes down what the segment holds: partition → key, partition → rows."""
    with (
        connection.cursor() as cursor,
        cursor.copy(
            "copy ops.segment_partitions (relation_name, partition, partition_key, row_count) from stdin"
        ) as copy,
    ):
        for name, key in partitions.items():
            copy.write_row((segment, name, key, counts[name]))


def record_view(connection: psycopg.Connection, view: str, pieces: Sequence[Piece]) -> int:
    """Writes down the segments of a view; returns how many rows it shows."""
    for piece in pieces:
        connection.execute(
            "insert into ops.view_segments (view_name, segment_name, hidden) values (%s, %s, %s)",
            [view, piece.segment, list(piece.hidden)],
        )
    row = connection.execute(
        "select coalesce(sum(p.row_count), 0)::bigint from ops.view_segments s "
        "join ops.segment_partitions p on p.relation_name = s.segment_name "
        "where s.view_name = %s and p.partition <> all(s.hidden)",
        [view],
    ).fetchone()
    return int(row[0]) if row else 0

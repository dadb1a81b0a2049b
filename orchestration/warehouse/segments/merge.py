"""Several segments become one, so that a view stays on few: the same rows, and proved to be.

The copy has another name and is adopted like anything that was built; readers of the old segments
notice nothing.
"""

from collections.abc import Sequence

import psycopg
from psycopg import sql

from orchestration.errors import InternalError
from orchestration.warehouse.dbt.graph import PARTITION_COLUMN
from orchestration.warehouse.dbt.plan import PlannedRelation
from orchestration.warehouse.names import identifier, qualified, statement
from orchestration.warehouse.segments.adoption import drop_bounds
from orchestration.warehouse.segments.layout import Piece
from orchestration.warehouse.segments.places import STORE_SCHEMA


def merge_segments(connection: psycopg.Connection, planned: PlannedRelation) -> None:
    """Makes `store.<planned>` from the visible partitions of its pieces; one transaction.

    The transformer's connection. Indexes, constraints and comments are those of the pieces. Raises
    `InternalError` if a partition came out differently, with nothing left behind.
    """
    name = planned.relation_name
    with connection.transaction():
        connection.execute(
            statement(
                "create table {copy} (like {first} including all)",
                copy=qualified(STORE_SCHEMA, name),
                first=qualified(STORE_SCHEMA, planned.merged[0].segment),
            )
        )
        _copy_comment(connection, planned.merged[0].segment, name)
        drop_bounds(connection, name)
        for piece in planned.merged:
            connection.execute(
                statement(
                    "insert into {copy} select * from {segment} where {wanted}",
                    copy=qualified(STORE_SCHEMA, name),
                    segment=qualified(STORE_SCHEMA, piece.segment),
                    wanted=_wanted(piece),
                )
            )
        before = {row for piece in planned.merged for row in _content(connection, piece)}
        visible = tuple(planned.partitions or ())
        after = set(_content(connection, Piece(name, visible)))
        if before != after:
            raise InternalError(
                f"{planned.model}: merging {len(planned.merged)} segments changed their content, so "
                "nothing was kept; look for a column type that does not compare equal to itself"
            )


def _copy_comment(connection: psycopg.Connection, segment: str, copy: str) -> None:
    """The table's own comment; LIKE takes those of columns, constraints and indexes alone."""
    row = connection.execute(
        "select obj_description(%s::regclass, 'pg_class')", [f"{STORE_SCHEMA}.{segment}"]
    ).fetchone()
    connection.execute(
        statement(
            "comment on table {copy} is {comment}",
            copy=qualified(STORE_SCHEMA, copy),
            comment=sql.Literal(row[0] if row else None),
        )
    )


def _content(connection: psycopg.Connection, piece: Piece) -> Sequence[tuple[str, int, object]]:
    """(partition, rows, checksum that does not depend on the order of rows) of what it shows."""
    return connection.execute(
        statement(
            "select {partition}, count(*), sum(hashtextextended(t::text, 0)::numeric) "
            "from {segment} as t where {wanted} group by 1",
            partition=identifier(PARTITION_COLUMN),
            segment=qualified(STORE_SCHEMA, piece.segment),
            wanted=_wanted(piece),
        )
    ).fetchall()


def _wanted(piece: Piece) -> sql.Composed:
    if not piece.hidden:
        return statement("true")
    return statement(
        "{partition} = any({visible})",
        partition=identifier(PARTITION_COLUMN),
        visible=sql.Literal(list(piece.visible)),
    )

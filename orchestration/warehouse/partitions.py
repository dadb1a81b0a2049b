"""What a version shows of a partitioned model, read from rows: partition, segment, key, row count.

Reading only, for any role that may read `ops`; a model that is kept as a whole has no partitions.
"""

from collections.abc import Collection
from dataclasses import dataclass

import psycopg

from orchestration.sql.queries import query
from orchestration.warehouse.segments.layout import Segment


@dataclass(frozen=True)
class VisiblePartition:
    """One partition as a view shows it: equal keys mean equal rows."""

    segment: str
    partition_key: str
    row_count: int


def visible_partitions(
    connection: psycopg.Connection, relation_name: str
) -> dict[str, VisiblePartition]:
    """partition → where its rows are, of the view `store.<relation_name>`; {} for whole tables."""
    rows = connection.execute(
        query("segments_visible"), {"relation_name": relation_name}
    ).fetchall()
    return {partition: VisiblePartition(*rest) for partition, *rest in rows}


def is_partitioned(connection: psycopg.Connection, relation_name: str) -> bool:
    """Whether the relation is a view over segments."""
    row = connection.execute(
        "select exists (select from ops.view_segments where view_name = %s)", [relation_name]
    ).fetchone()
    return bool(row and row[0])


def segments_with(connection: psycopg.Connection, partition_keys: Collection[str]) -> list[Segment]:
    """The adopted segments that hold any of these partition keys, each with all it holds."""
    # One text: thousands of constants would be written, read and planned one by one.
    rows = connection.execute(
        query("segments_with_keys"), {"keys": " ".join(partition_keys)}
    ).fetchall()
    return [
        Segment(name, dict(zip(held, keys, strict=True)), dict(zip(held, counts, strict=True)))
        for name, held, keys, counts in rows
    ]

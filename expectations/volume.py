"""How much came and when, one row for each partition, beside what is usual; volume suites judge that.

What is usual is given by whoever knows the history. Where it is unknown its columns are null, which
no bound refuses: constants must hold alone there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import sql

from expectations.subject import literal_name, relation

HISTORY_COLUMNS = frozenset({"usual_row_count", "share_of_usual", "hours_later_than_usual"})
VOLUME_COLUMNS = ("_partition", "row_count", *sorted(HISTORY_COLUMNS))


@dataclass(frozen=True, slots=True)
class Usual:
    """What history says of one partition: rows that are usual, hours that it came later than usual."""

    row_count: float | None = None
    hours_later: float | None = None


def partition_volume_query(
    schema: str,
    table: str,
    artifacts: Mapping[str, str],
    usual: Mapping[str, Usual] | None = None,
) -> str:
    """One row per partition, with `VOLUME_COLUMNS`; an artifact without rows counts 0.

    `artifacts` maps artifact id -> partition and must not be empty, `usual` maps artifact id -> what
    is known. Raises ValueError otherwise, and for malformed ids.
    """
    if not artifacts:
        raise ValueError("no artifacts to count; leave the volume suite out")
    known = usual or {}
    rows = [
        _row(artifact_id, partition, known.get(artifact_id, Usual()))
        for artifact_id, partition in artifacts.items()
    ]
    query = sql.SQL(
        "select a._partition, count(r._artifact_id) as row_count, a.usual_row_count,"
        " count(r._artifact_id) / nullif(a.usual_row_count, 0) as share_of_usual,"
        " a.hours_later_than_usual"
        " from (values {}) a (_artifact_id, _partition, usual_row_count, hours_later_than_usual)"
        " left join {} r on r._artifact_id = a._artifact_id"
        " group by a._partition, a.usual_row_count, a.hours_later_than_usual"
    )
    return query.format(sql.SQL(", ").join(rows), relation(schema, table)).as_string(None)


def _row(artifact_id: str, partition: str, usual: Usual) -> sql.Composable:
    return sql.SQL("({}, {}, cast({} as double precision), cast({} as double precision))").format(
        literal_name(artifact_id),
        literal_name(partition),
        sql.Literal(usual.row_count),
        sql.Literal(usual.hours_later),
    )

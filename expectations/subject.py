"""What a suite is evaluated on: a relation, or a query that narrows it, and its parameters."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from psycopg import sql

from expectations.parameters import Value
from expectations.scope import Manner
from expectations.suite import Suite

PARTITION = "_partition"

_JOIN = re.compile(r"\bjoin\b", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.@/=+-]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """One evaluation: the whole of `schema.table`, or the rows of `query`.

    `schema` is also the search path, so that a suite's SQL can name what stands beside it bare;
    `neighbours` maps further names to queries for them. With a query, give the `table` it reads
    too: expectations on types and columns look there. With a `partition_column`, a failed
    expectation counts its unexpected rows for each partition. `partitions` maps each partition that
    is looked at to its own parameters, for what is asked of each partition by itself. `row_key`
    names the columns that identify a row, `sensitive` those whose values are never told.
    """

    suite: Suite
    schema: str
    table: str | None = None
    query: str | None = None
    parameters: Mapping[str, Value] = field(default_factory=dict)
    partition_column: str | None = None
    neighbours: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    manner: Manner = Manner.WHOLE
    row_key: tuple[str, ...] = ()
    sensitive: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.table is None and self.query is None:
            raise ValueError("a subject needs a table or a query; name one")

    @property
    def source(self) -> sql.Composable:
        """What stands after `from` to read the subject."""
        if self.query is not None:
            return sql.SQL("({}) as subselect").format(sql.SQL(self.query))
        return relation(self.schema, self.table or "")

    def filled_in(self, query: str) -> str:
        """A suite's SQL with the rows in place of `{batch}`, as Great Expectations does it.

        It leaves the alias to the query when that has a join.
        """
        rows = self.source.as_string(None)
        if self.query is not None and _JOIN.search(query):
            rows = f"({self.query})"
        return query.format(batch=rows)


def relation(schema: str, table: str) -> sql.Identifier:
    """A quoted, qualified relation name."""
    return sql.Identifier(schema, table)


def artifact_rows_query(schema: str, table: str, artifact_ids: Iterable[str]) -> str:
    """The rows of some artifacts of a staging table. Raises ValueError for a malformed id."""
    ids = [literal_name(artifact_id) for artifact_id in artifact_ids]
    condition = (
        sql.SQL("_artifact_id in ({})").format(sql.SQL(", ").join(ids)) if ids else sql.SQL("false")
    )
    query = sql.SQL("select * from {} where {}").format(relation(schema, table), condition)
    return query.as_string(None)


def day_before_query(schema: str, table: str, pairs: Mapping[str, str]) -> str:
    """The rows of earlier artifacts with a column `_next_partition`: the partition that follows theirs.

    `pairs` maps artifact id -> that partition; without any there are no rows. No word of it is a
    join, see `Subject.filled_in`. Raises ValueError for malformed names.
    """
    if not pairs:
        nothing = "select r.*, r._partition as _next_partition from {} r where false"
        return sql.SQL(nothing).format(relation(schema, table)).as_string(None)
    rows = [
        sql.SQL("({}, {})").format(literal_name(artifact_id), literal_name(partition))
        for artifact_id, partition in pairs.items()
    ]
    query = sql.SQL(
        "select r.*, p._next_partition from {} r, (values {}) p (_artifact_id, _next_partition)"
        " where r._artifact_id = p._artifact_id"
    )
    return query.format(relation(schema, table), sql.SQL(", ").join(rows)).as_string(None)


def literal_name(name: str) -> sql.Literal:
    """The name of an artifact or partition, quoted. Raises ValueError for what can be none."""
    # A colon would read as a bind parameter where Great Expectations takes a query as text.
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError("an artifact or partition name has characters that no such name may have")
    return sql.Literal(name)

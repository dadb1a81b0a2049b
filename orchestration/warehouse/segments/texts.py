"""The SQL around segments: the two views of a partitioned model, and what one build may read.

A build of some partitions reads temporary views that hold those partitions and no others, so that
nothing undeclared can be read and its cost does not grow with the history.
"""

from collections.abc import Iterable, Mapping, Sequence

from psycopg import sql

from orchestration.warehouse.dbt.graph import PARTITION_COLUMN
from orchestration.warehouse.names import identifier, qualified, staging_table, statement
from orchestration.warehouse.segments.layout import Piece
from orchestration.warehouse.segments.places import IN_STORE, STORE_SCHEMA, Places

LIVE_SCHEMA = "live"
LIVE_SUFFIX = "__live"


def live_name(relation: str) -> str:
    """The view that has hidden rows too, and says in `_live` which are shown."""
    return relation + LIVE_SUFFIX


def segment_views(
    relation: str, columns: Sequence[str], pieces: Sequence[Piece], places: Places = IN_STORE
) -> tuple[str, str]:
    """Statements for `<relation>__live` and `<relation>`, in this order; they may be run again.

    Only slots read the first: a condition in a branch of UNION ALL would keep the planner from
    pulling it up, a column does not. `columns` are those of the contract, `_partition` last.
    """
    names = _names(columns)
    branches = [
        statement(
            "select {columns}, {live} as _live from {segment}",
            columns=names,
            live=_shown(piece),
            segment=places.qualified(piece.segment),
        )
        for piece in pieces
    ]
    live = qualified(places.schema_of(relation), live_name(relation))
    return (
        _text(
            statement(
                "create or replace view {view} as {branches}",
                view=live,
                branches=sql.SQL(" union all ").join(branches),
            )
        ),
        _text(
            statement(
                "create or replace view {view} as select {columns} from {live} where _live",
                view=places.qualified(relation),
                columns=names,
                live=live,
            )
        ),
    )


def temporary_view(name: str, code: str) -> str:
    """A view for this session alone."""
    head = statement("create temporary view {view} as ", view=identifier(name))
    return _text(head) + code


def with_tables(tables: Sequence[tuple[str, str]], code: str) -> str:
    """The code after tables of its own, (name, query), that it may name."""
    if not tables:
        return code
    named = sql.SQL(", ").join(
        sql.SQL("{} as ({}\n)").format(sql.Identifier(name), sql.SQL(query))
        for name, query in tables
    )
    return f"with {_text(named)}\nselect * from (\n{code}\n) as answered"


def whole_relation(relation: str) -> str:
    """A query for everything that a relation of the store shows."""
    return _text(statement("select * from {relation}", relation=qualified(STORE_SCHEMA, relation)))


def some_partitions(
    columns: Sequence[str],
    pieces: Sequence[Piece],
    wanted: Iterable[str],
    places: Places = IN_STORE,
) -> str:
    """A query for these partitions and no others, over the segments that show them."""
    asked = set(wanted)
    found = [(piece, sorted(asked & set(piece.visible))) for piece in pieces]
    # With nothing to show, the types still come from a segment.
    chosen = [(piece, part) for piece, part in found if part] or found[:1]
    return _text(
        sql.SQL(" union all ").join(
            statement(
                "select {columns} from {segment} where {partition} = any({wanted})",
                columns=_names(columns),
                segment=places.qualified(piece.segment),
                partition=identifier(PARTITION_COLUMN),
                wanted=array(part),
            )
            for piece, part in chosen
        )
    )


def some_artifacts(resource: str, columns: Sequence[str], artifacts: Iterable[str]) -> str:
    """A query for the rows of these artifacts, as the view in schema live shows them."""
    return _text(
        statement(
            "select {columns} from {table} as t where t._artifact_id = any({artifacts})",
            columns=sql.SQL(", ").join(shown_column(name) for name in columns),
            table=qualified("staging", staging_table(resource)),
            artifacts=array(artifacts, "varchar"),
        )
    )


def some_windows(resource: str, columns: Sequence[str], windows: Iterable[str]) -> str:
    """The same rows through the view in schema live, for who may not read artifacts."""
    return _text(
        statement(
            "select {columns} from {view} where {partition} = any({windows})",
            columns=_names(columns),
            view=qualified(LIVE_SCHEMA, staging_table(resource)),
            partition=identifier(PARTITION_COLUMN),
            windows=array(windows),
        )
    )


def shown_column(name: str) -> sql.Composable:
    """A staging column as schema live has it: `_partition` is the window alone.

    A correction is another revision of the same window, so the revision must not reach a model.
    """
    if name != PARTITION_COLUMN:
        return sql.SQL("t.{}").format(sql.Identifier(name))
    return sql.SQL(
        "cast(split_part(split_part(t._partition, '/', 2), '@', 1) as character varying) as _partition"
    )


def without_partitions(code: str, partitions: Iterable[str]) -> str:
    """What `code` yields, without the rows of partitions that are only there to be looked back at.

    Rows of any other partition stay, so that adoption can refuse them.
    """
    tail = statement(
        ") as built where (built.{partition} = any({unwanted})) is not true",
        partition=identifier(PARTITION_COLUMN),
        unwanted=array(partitions),
    )
    return "\n".join(["select * from (", code, _text(tail)])


def resolve(code: str, relations: Mapping[str, str]) -> str:
    """The code with placeholders replaced by relations, both as they are written in SQL."""
    for placeholder, relation in relations.items():
        code = code.replace(placeholder, relation)
    return code


def written(schema: str, name: str) -> str:
    """`"schema"."name"`."""
    return _text(qualified(schema, name))


def array(values: Iterable[str], kind: str = "text") -> sql.Composed:
    """`'{a,b}'::text[]`."""
    # One constant: thousands of them would be planned one by one whenever somebody reads the view.
    return sql.SQL("{}::{}[]").format(sql.Literal(list(values)), sql.SQL(kind))


def _shown(piece: Piece) -> sql.Composable:
    if not piece.hidden:
        return sql.SQL("true")
    return statement(
        "{partition} <> all({hidden})",
        partition=identifier(PARTITION_COLUMN),
        hidden=array(piece.hidden),
    )


def _names(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in columns)


def _text(composed: sql.Composable) -> str:
    return composed.as_string(None)

"""The SQL of a comparison: rows are matched by key in the warehouse, only counts and examples leave it.

Columns are called c0, c1, … inside, so that no name of a model meets a name of ours; the first ones
are the key.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg import sql

from orchestration.comparison.columns import ComparedColumn
from orchestration.comparison.sides import Place
from orchestration.sql.queries import query
from orchestration.warehouse.names import qualified, statement

EXAMPLES = 3
# What an example shows: the position of a column, or one of these.
ADDED, REMOVED = -1, -2
_LONGEST = 80


@dataclass(frozen=True)
class Rows:
    """Rows of one side: whole relations, or some partitions of each."""

    places: tuple[tuple[Place, tuple[str, ...] | None], ...]
    has_partitions: bool


@dataclass(frozen=True)
class Comparison:
    """Two sets of rows, not both empty, with the columns they share (at least one).

    The first `key_length` of the columns are the key.
    """

    before: Rows
    after: Rows
    columns: tuple[ComparedColumn, ...]
    key_length: int

    @property
    def places(self) -> tuple[tuple[Place, tuple[str, ...] | None], ...]:
        return (*self.before.places, *self.after.places)

    @property
    def key(self) -> range:
        return range(self.key_length)

    @property
    def others(self) -> range:
        return range(self.key_length, len(self.columns))


def measure_keys(comparison: Comparison, rows: Rows) -> sql.Composed:
    """One row: rows, keys that several rows have, whether a key holds a null."""
    keys = _names(comparison.key)
    nulls = [statement("{name} is null", name=_c(i)) for i in comparison.key]
    return statement(
        query("comparison_measure"),
        rows=_select(comparison, rows),
        keys=keys,
        any_null=_any(nulls),
    )


def compare_by_key(
    comparison: Comparison, *, has_duplicates: bool, has_nulls: bool
) -> sql.Composed:
    """One row: counts as JSON (a total and one entry for each partition), examples as JSON."""
    key = comparison.key
    differs = [statement("b.{c} is distinct from a.{c}", c=_c(i)) for i in comparison.others]
    return statement(
        query("comparison_by_key"),
        **_sides(comparison, has_duplicates=has_duplicates),
        keys=_list(
            statement("case when a._there then a.{c} else b.{c} end as {c}", c=_c(i)) for i in key
        ),
        flags=_trailing(
            statement(
                "(b._there and a._there and b.{c} is distinct from a.{c}) as {d}", c=_c(i), d=_d(i)
            )
            for i in comparison.others
        ),
        same_key=_same_key(key, "b", "a", has_nulls=has_nulls),
        differs=_any(differs),
        changed=_array(
            (statement("count(*) filter (where {d})", d=_d(i)) for i in comparison.others), "bigint"
        ),
        order=_list(sql.Identifier("p", f"c{i}") for i in key),
        picked=sql.SQL(" union all ").join(_picks(comparison)),
        shown_key=_array((_shown(comparison, i, "p") for i in key), "text"),
        value_before=_value(comparison, "b"),
        value_after=_value(comparison, "a"),
        picked_before=_same_key(key, "p", "b", has_nulls=has_nulls),
        picked_after=_same_key(key, "p", "a", has_nulls=has_nulls),
    )


def compare_whole_rows(comparison: Comparison, *, only_duplicates: bool) -> sql.Composed:
    """One row: counts as JSON, of rows that one side has more often than the other.

    `only_duplicates` leaves out the rows whose key no other row of either side has.
    """
    return statement(
        query("comparison_whole_rows"),
        prelude=_prelude(comparison, only=True) if only_duplicates else _plain(comparison),
        columns=_names(range(len(comparison.columns))),
        duplicate_keys=sql.SQL(
            "(select count(*) from ambiguous)" if only_duplicates else "0::bigint"
        ),
    )


def _sides(comparison: Comparison, *, has_duplicates: bool) -> dict[str, sql.Composable]:
    return {"prelude": _prelude(comparison, only=False) if has_duplicates else _plain(comparison)}


def _plain(comparison: Comparison) -> sql.Composed:
    return statement(
        "before_rows as not materialized ({before}), after_rows as not materialized ({after})",
        before=_select(comparison, comparison.before),
        after=_select(comparison, comparison.after),
    )


def _prelude(comparison: Comparison, *, only: bool) -> sql.Composed:
    """Both sides split by whether some key has several rows: those alone, or all others."""
    return statement(
        query("comparison_duplicates"),
        before=_select(comparison, comparison.before),
        after=_select(comparison, comparison.after),
        keys=_names(comparison.key),
        having=sql.SQL("" if only else "not"),
        same_key=_same_key(comparison.key, "k", "r", has_nulls=True),
    )


def _select(comparison: Comparison, rows: Rows) -> sql.Composed:
    columns = _list(
        statement(
            "r.{name}::text as {c}" if column.as_text else "r.{name} as {c}",
            name=sql.Identifier(column.name),
            c=_c(i),
        )
        for i, column in enumerate(comparison.columns)
    )
    partition = sql.SQL("r._partition::text" if rows.has_partitions else "null::text")
    # A side without rows takes its types from the other one.
    places = rows.places or tuple((place, ()) for place, _ in comparison.places[:1])
    return sql.SQL(" union all ").join(
        statement(
            "select {columns}, {partition} as _partition, true as _there from {relation} as r {only}",
            columns=columns,
            partition=partition,
            relation=qualified(place.schema, place.name),
            only=_only(partitions),
        )
        for place, partitions in places
    )


def _only(partitions: Sequence[str] | None) -> sql.Composable:
    if partitions is None:
        return sql.SQL("")
    if not partitions:
        return sql.SQL("where false")
    return statement("where r._partition = any({names})", names=sql.Literal(list(partitions)))


def _same_key(key: range, one: str, other: str, *, has_nulls: bool) -> sql.Composed:
    """Equality by which Postgres can hash. A null equals a null, as it does in GROUP BY."""
    names = {"one": sql.Identifier(one), "other": sql.Identifier(other)}
    if not has_nulls:
        return sql.SQL(" and ").join(
            statement("{one}.{c} = {other}.{c}", c=_c(i), **names) for i in key
        )
    rows = [
        statement(
            "hash_record(row({columns}))",
            columns=_list(sql.Identifier(side, f"c{i}") for i in key),
        )
        for side in (one, other)
    ]
    exact = [statement("{one}.{c} is not distinct from {other}.{c}", c=_c(i), **names) for i in key]
    return sql.SQL(" and ").join([sql.SQL(" = ").join(rows), *exact])


def _picks(comparison: Comparison) -> Iterable[sql.Composed]:
    """The first few rows, in the order of the key, of each kind of difference."""
    wanted: list[tuple[int, sql.Composable]] = [
        (ADDED, sql.SQL("_kind = 'added'")),
        (REMOVED, sql.SQL("_kind = 'removed'")),
        *((i, _d(i)) for i in comparison.others),
    ]
    for number, condition in wanted:
        yield statement(
            "(select {number} as what, {keys} from differing where {condition} "
            "order by {keys} limit {limit})",
            number=sql.Literal(number),
            keys=_names(comparison.key),
            condition=condition,
            limit=sql.Literal(EXAMPLES),
        )


def _value(comparison: Comparison, side: str) -> sql.Composable:
    cases = [
        statement(
            "when {number} then {value}", number=sql.Literal(i), value=_shown(comparison, i, side)
        )
        for i in comparison.others
        if not comparison.columns[i].is_hidden
    ]
    if not cases:
        return sql.SQL("null::text")
    return sql.SQL("case p.what {} end").format(sql.SQL(" ").join(cases))


def _shown(comparison: Comparison, position: int, side: str) -> sql.Composable:
    if comparison.columns[position].is_hidden:
        return sql.SQL("null::text")
    return statement(
        "left({column}::text, {longest})",
        column=sql.Identifier(side, f"c{position}"),
        longest=sql.Literal(_LONGEST),
    )


def _names(positions: range) -> sql.Composed:
    return _list(_c(i) for i in positions)


def _c(position: int) -> sql.Identifier:
    return sql.Identifier(f"c{position}")


def _d(position: int) -> sql.Identifier:
    return sql.Identifier(f"d{position}")


def _any(conditions: Sequence[sql.Composable]) -> sql.Composed:
    return sql.SQL("({})").format(sql.SQL(" or ").join(conditions or [sql.SQL("false")]))


def _array(values: Iterable[sql.Composable], kind: str) -> sql.Composed:
    return sql.SQL("array[{}]::{}[]").format(_list(values), sql.SQL(kind))


def _list(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)


def _trailing(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.Composed([sql.SQL(", ") + part for part in parts])

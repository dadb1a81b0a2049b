"""Any two small tables: what the warehouse counts is what a plain model in Python counts."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from psycopg import sql

from orchestration.comparison.compare import compare_sides
from orchestration.comparison.sides import ModelSide, Partition, Place, Side
from orchestration.comparison.statements import EXAMPLES
from orchestration.comparison.value import HIDDEN, ModelDiff, SideLabel
from orchestration.publication.shapes import Column
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.dbt.state import ModelState
from orchestration.warehouse.embedded import EmbeddedServer

SCHEMA = "analytics"
Row = dict[str, Any]

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k1": st.none() | st.integers(0, 6),
    "k2": st.none() | st.sampled_from(["x", "y", "x y"]),
    "number": st.none() | st.integers(-1, 1),
    "amount": st.none() | st.sampled_from([Decimal(1), Decimal("1.00"), Decimal("1.01")]),
    "share": st.none() | st.sampled_from([0.0, -0.0, 0.5, math.nan]),
    "note": st.none() | st.sampled_from(["", "a", "b"]),
    "raw": st.none() | st.sampled_from(['{"a": 1}', '{"a": 2}']),
}
_TYPES = {
    "k1": ["integer", "bigint", "text"],
    "k2": ["text", "character varying"],
    "number": ["integer", "bigint", "numeric", "text"],
    "amount": ["numeric"],
    "share": ["double precision"],
    "note": ["text", "character varying"],
    "raw": ["json"],
}
_PARTITIONS = ["2013-01-01", "2013-01-02", "2013-01-03"]


@dataclass(frozen=True)
class Table:
    types: dict[str, str]
    rows: list[Row]
    segments: dict[str, int] = field(default_factory=dict)
    """partition → the table it lies in."""


@dataclass(frozen=True)
class Case:
    before: Table
    after: Table
    key: tuple[str, ...]
    hidden: frozenset[str]
    partitioned: bool
    believed: frozenset[str]
    """Partitions whose key is the same, where the rows are."""

    @property
    def common(self) -> list[str]:
        return [name for name in self.after.types if name in self.before.types]

    @property
    def read(self) -> list[str]:
        """Partitions that have to be read."""
        held = sorted({*self.before.segments, *self.after.segments})
        return [name for name in held if not self.is_same(name)]

    def is_same(self, partition: str) -> bool:
        both = partition in self.before.segments and partition in self.after.segments
        return both and partition in self.believed and self.rows_are_same(partition)

    def rows_are_same(self, partition: str) -> bool:
        if self.before.types != self.after.types:
            return False
        before, after = (
            Counter(
                comparable(row, list(table.types)) for row in table.rows if row["p"] == partition
            )
            for table in (self.before, self.after)
        )
        return before == after


@st.composite
def tables(draw: st.DrawFn, names: Sequence[str], base: list[Row]) -> Table:
    types = {name: draw(st.sampled_from(_TYPES[name])) for name in names}
    fresh = st.fixed_dictionaries(
        {**_VALUES, "p": st.sampled_from(_PARTITIONS)}  # type: ignore[arg-type]
    )
    kept = [dict(row) for row in base if draw(st.integers(0, 4))]
    for row in kept:
        if not draw(st.integers(0, 3)):
            name = draw(st.sampled_from([*_VALUES, "p"]))
            row[name] = draw(fresh)[name]
    rows = kept + draw(st.lists(fresh, max_size=3))
    empty = draw(st.sets(st.sampled_from(_PARTITIONS)))
    held = sorted({row["p"] for row in rows} | empty)
    return Table(types, rows, {name: draw(st.integers(0, 1)) for name in held})


@st.composite
def cases(draw: st.DrawFn) -> Case:
    fresh = st.fixed_dictionaries(
        {**_VALUES, "p": st.sampled_from(_PARTITIONS)}  # type: ignore[arg-type]
    )
    base = draw(st.lists(fresh, max_size=8))
    names = list(_VALUES)
    # Mostly not the key: with a key that only one side has, rows are compared whole.
    unlikely = names if not draw(st.integers(0, 3)) else names[2:]
    dropped = draw(st.sets(st.sampled_from(unlikely), max_size=2))
    added = draw(st.sets(st.sampled_from(unlikely), max_size=2))
    before = draw(tables([name for name in names if name not in added], base))
    after = draw(tables([name for name in names if name not in dropped], base))
    if draw(st.booleans()):
        after = replace(after, types={n: before.types.get(n, t) for n, t in after.types.items()})
    key = draw(st.sampled_from([(), ("k1",), ("k1", "k2"), ("k2",)]))
    if key and draw(st.integers(0, 2)):
        before, after = unique(before, key), unique(after, key)
    return Case(
        before,
        after,
        key=key,
        hidden=frozenset(draw(st.sets(st.sampled_from(names), max_size=2))),
        partitioned=draw(st.booleans()),
        believed=frozenset(draw(st.sets(st.sampled_from(_PARTITIONS)))),
    )


def unique(table: Table, key: Sequence[str]) -> Table:
    """The table without the rows that would share a key."""
    rows = {comparable(row, key): row for row in table.rows}
    return replace(table, rows=list(rows.values()))


def comparable(row: Row, names: Sequence[str]) -> tuple[Any, ...]:
    """What Postgres holds for equal: null is null, NaN is NaN, 1.00 is 1."""
    return tuple(
        "NaN" if isinstance(row[name], float) and math.isnan(row[name]) else row[name]
        for name in names
    )


@dataclass
class Expected:
    added: int = 0
    removed: int = 0
    changed: int = 0
    columns: Counter[str] = field(default_factory=Counter)
    duplicates: int = 0


def expect(case: Case, before: list[Row], after: list[Row]) -> Expected:
    """The model."""
    names = case.common
    found = Expected()
    key = case.key if set(case.key) <= set(names) else ()
    if not key:
        return _multisets(found, names, before, after)
    sides = [Counter(comparable(row, key) for row in rows) for rows in (before, after)]
    ambiguous = {value for counted in sides for value, count in counted.items() if count > 1}
    found.duplicates = len(ambiguous)
    old, new = (
        {comparable(row, key): row for row in rows if comparable(row, key) not in ambiguous}
        for rows in (before, after)
    )
    found.added, found.removed = len(new.keys() - old.keys()), len(old.keys() - new.keys())
    for value in old.keys() & new.keys():
        others = [name for name in names if name not in key]
        differing = [
            name
            for name in others
            if comparable(old[value], [name]) != comparable(new[value], [name])
        ]
        found.columns.update(differing)
        found.changed += bool(differing)
    rest = [[row for row in rows if comparable(row, key) in ambiguous] for rows in (before, after)]
    return _multisets(found, names, *rest)


def _multisets(found: Expected, names: list[str], before: list[Row], after: list[Row]) -> Expected:
    old, new = (Counter(comparable(row, names) for row in rows) for rows in (before, after))
    found.added += (new - old).total()
    found.removed += (old - new).total()
    return found


@pytest.fixture(scope="module")
def connection(server: EmbeddedServer, template: str) -> Iterator[psycopg.Connection]:
    name = "comparisons"
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as admin:
        admin.execute(f"create database {name} template {template} owner sluice_owner")
        with Warehouse(server.url(database=name)).connect() as connection:
            yield connection
        admin.execute(f"drop database {name} with (force)")


@contextmanager
def stored(connection: psycopg.Connection, case: Case) -> Iterator[tuple[Side, Side]]:
    """Both tables, until the block ends."""
    with connection.transaction(force_rollback=True):
        yield (
            _store(connection, case, case.before, "before"),
            _store(connection, case, case.after, "after"),
        )


def _store(connection: psycopg.Connection, case: Case, table: Table, side: str) -> Side:
    places = [Place(SCHEMA, f"{side}_{number}") for number in range(2)]
    for number, place in enumerate(places):
        columns = [*table.types.items(), ("_partition", "text")]
        connection.execute(
            sql.SQL("create table {}.{} ({})").format(
                sql.Identifier(place.schema),
                sql.Identifier(place.name),
                sql.SQL(", ").join(
                    sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
                    for name, kind in columns
                ),
            )
        )
        for row in table.rows:
            if number == (table.segments[row["p"]] if case.partitioned else 0):
                # As text, which every type reads, so that one column may have any of its types.
                values = [None if row[name] is None else str(row[name]) for name in table.types]
                connection.execute(
                    sql.SQL("insert into {}.{} values ({})").format(
                        sql.Identifier(place.schema),
                        sql.Identifier(place.name),
                        sql.SQL(", ").join([*map(sql.Literal, values), sql.Literal(row["p"])]),
                    )
                )
    partitions = {
        name: Partition(
            places[number],
            "same" if case.is_same(name) else side,
            sum(row["p"] == name for row in table.rows),
        )
        for name, number in table.segments.items()
    }
    model = ModelSide(
        "model",
        places[0],
        tuple(Column(name, kind) for name, kind in table.types.items()),
        content_key=side,
        rows=len(table.rows) if case.partitioned else None,
        partitions=partitions if case.partitioned else None,
        state=ModelState("0", {}, case.key, "unique_test", case.hidden),
    )
    return Side(SideLabel(side, "p", "passed"), {"model": model})


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(case=cases())
def test_the_diff_of_two_tables_is_what_a_model_of_it_says(
    connection: psycopg.Connection, case: Case
) -> None:
    assume(case.common)
    assume(not case.partitioned or (case.before.segments and case.after.segments))
    with stored(connection, case) as sides:
        [diff] = compare_sides(connection, *sides).models
    read = case.read if case.partitioned else None
    before, after = (
        [row for row in table.rows if read is None or row["p"] in read]
        for table in (case.before, case.after)
    )
    expected = expect(case, before, after)
    event(
        f"key: {bool(diff.key)}, duplicates: {bool(expected.duplicates)}, parts: {case.partitioned}"
    )

    assert (diff.counts.added, diff.counts.removed, diff.counts.changed) == (
        expected.added,
        expected.removed,
        expected.changed,
    )
    assert diff.rows_after == len(case.after.rows)
    assert diff.rows_before == len(case.before.rows)
    assert diff.rows_after - diff.rows_before == diff.counts.added - diff.counts.removed
    assert diff.duplicate_keys == expected.duplicates
    assert {change.column: change.rows for change in diff.columns} == dict(expected.columns)
    assert {column.name for column in diff.shape.added} == set(case.after.types) - set(case.common)
    assert {column.name for column in diff.shape.dropped} == set(case.before.types) - set(
        case.common
    )
    if case.partitioned:
        check_partitions(case, diff)
    check_examples(case, diff)


def check_partitions(case: Case, diff: ModelDiff) -> None:
    assert [part.partition for part in diff.partitions] == case.read
    held = {*case.before.segments, *case.after.segments}
    assert diff.partitions_same == len(held) - len(case.read)
    for part in diff.partitions:
        old, new = (
            [row for row in table.rows if row["p"] == part.partition]
            for table in (case.before, case.after)
        )
        assert (part.rows_before, part.rows_after) == (len(old), len(new))
    if diff.key and not diff.duplicate_keys:
        assert sum(part.counts.total for part in diff.partitions) == diff.counts.total


def check_examples(case: Case, diff: ModelDiff) -> None:
    for change in diff.columns:
        assert len(change.examples) == min(change.rows, EXAMPLES)
        assert change.is_hidden == (change.column in case.hidden)
        for row in change.examples:
            assert not change.is_hidden or {row.before, row.after} == {HIDDEN}
            assert change.is_hidden or row.before != row.after
            hidden = [name in case.hidden for name in diff.key]
            assert [part == HIDDEN for part in row.key] == hidden

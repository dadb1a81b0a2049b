"""Runs the statements of one model's comparison and reads what they found into values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from orchestration.comparison.scope import Scope
from orchestration.comparison.statements import (
    ADDED,
    REMOVED,
    Comparison,
    compare_by_key,
    compare_whole_rows,
    measure_keys,
)
from orchestration.comparison.value import (
    HIDDEN,
    ColumnChange,
    Example,
    ModelDiff,
    PartitionChange,
    RowCounts,
)

TOTAL = None
"""Where the counts of a model as a whole stand among those of its partitions."""


@dataclass(frozen=True)
class Findings:
    """What the warehouse answered. `counts` are by partition, and of all of them under `TOTAL`.

    `changed` counts rows for each column that is not in the key; `rows` are those that were read of
    each side, None when nobody counted.
    """

    comparison: Comparison
    counts: Mapping[str | None, RowCounts]
    changed: Sequence[int] = ()
    examples: Sequence[Mapping[str, Any]] = ()
    duplicate_keys: int = 0
    rows: tuple[int | None, int | None] = (None, None)

    def into(self, diff: ModelDiff, scope: Scope) -> ModelDiff:
        """The diff with counts, columns, examples and partitions."""
        return replace(
            diff,
            counts=self.counts.get(TOTAL, RowCounts()),
            duplicate_keys=self.duplicate_keys,
            columns=tuple(self._columns()),
            added_examples=tuple(self._examples(ADDED)),
            removed_examples=tuple(self._examples(REMOVED)),
            partitions=tuple(
                PartitionChange(
                    name,
                    before.rows if before else 0,
                    after.rows if after else 0,
                    self.counts.get(name, RowCounts()),
                )
                for name, (before, after) in scope.partitions.items()
            ),
        )

    def _columns(self) -> Iterator[ColumnChange]:
        for position, rows in zip(self.comparison.others, self.changed, strict=False):
            column = self.comparison.columns[position]
            if rows:
                yield ColumnChange(
                    column.name, rows, column.is_hidden, tuple(self._examples(position))
                )

    def _examples(self, what: int) -> Iterator[Example]:
        key = self.comparison.columns[: self.comparison.key_length]
        hides = what >= 0 and self.comparison.columns[what].is_hidden
        for found in self.examples:
            if found["what"] != what:
                continue
            shown = zip(key, found["key"], strict=True)
            yield Example(
                key=tuple(HIDDEN if column.is_hidden else value for column, value in shown),
                before=HIDDEN if hides else found["before"],
                after=HIDDEN if hides else found["after"],
            )


def find_differences(connection: psycopg.Connection, comparison: Comparison) -> Findings:
    """Asks the warehouse; only reads. By key where there is one, else as multisets of rows."""
    if not comparison.key_length:
        counts, _ = _whole_rows(connection, comparison, only_duplicates=False)
        return Findings(comparison, counts)
    measured = [
        _one(connection, measure_keys(comparison, rows))
        for rows in (comparison.before, comparison.after)
    ]
    rows = (measured[0][0], measured[1][0])
    has_duplicates = any(duplicates for _, duplicates, _ in measured)
    statement = compare_by_key(
        comparison,
        has_duplicates=has_duplicates,
        has_nulls=any(nulls for _, _, nulls in measured),
    )
    counted, examples = _one(connection, statement)
    counts = _by_partition(counted)
    [changed] = [entry["columns"] for entry in counted if entry["is_total"]]
    found = Findings(comparison, counts, changed, examples, rows=rows)
    if not has_duplicates:
        return found
    return _with_duplicates(connection, found)


def _with_duplicates(connection: psycopg.Connection, found: Findings) -> Findings:
    """Adds the rows that share their key with another one, which were compared whole."""
    more, duplicate_keys = _whole_rows(connection, found.comparison, only_duplicates=True)
    counts = dict(found.counts)
    for partition, extra in more.items():
        known = counts.get(partition, RowCounts())
        counts[partition] = RowCounts(
            known.added + extra.added, known.removed + extra.removed, known.changed
        )
    return replace(found, counts=counts, duplicate_keys=duplicate_keys)


def _whole_rows(
    connection: psycopg.Connection, comparison: Comparison, *, only_duplicates: bool
) -> tuple[dict[str | None, RowCounts], int]:
    """(counts, how many keys several rows share)."""
    statement = compare_whole_rows(comparison, only_duplicates=only_duplicates)
    counted, duplicate_keys = _one(connection, statement)
    return _by_partition(counted), duplicate_keys


def _by_partition(counted: Sequence[Mapping[str, Any]]) -> dict[str | None, RowCounts]:
    return {
        TOTAL if entry["is_total"] else entry["_partition"]: RowCounts(
            entry["added"], entry["removed"], entry.get("changed", 0)
        )
        for entry in counted
        if entry["is_total"] or entry["_partition"] is not None
    }


def _one(connection: psycopg.Connection, statement: Any) -> tuple[Any, ...]:
    row = connection.execute(statement).fetchone()
    if row is None:
        raise LookupError("an aggregate without a row")
    return tuple(row)

"""Compares two sides model by model, reading only what can differ.

Equal content keys are not read at all, nor are partitions with equal keys. All counting is done by
the warehouse; nothing is written.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import psycopg

from orchestration.comparison.columns import compared_columns
from orchestration.comparison.findings import find_differences
from orchestration.comparison.scope import Scope, plan_scope
from orchestration.comparison.sides import ModelSide, Side, require_places
from orchestration.comparison.statements import Comparison
from orchestration.comparison.value import ModelDiff, RowCounts, VersionDiff
from orchestration.publication.shapes import compare_shape
from orchestration.warehouse.dbt.sensitive import EVERY_COLUMN
from orchestration.warehouse.names import qualified, statement

_HIDE_ALL = frozenset({EVERY_COLUMN})


def _nobody(_model: str) -> None:
    return None


def compare_sides(
    connection: psycopg.Connection,
    before: Side,
    after: Side,
    *,
    only: Collection[str] | None = None,
    tell: Callable[[str], None] = _nobody,
) -> VersionDiff:
    """All models that either side has, or `only` those; `tell` hears which one is being read.

    Raises `ConfigurationError` (`relation_gone`).
    """
    names = sorted({*before.models, *after.models})
    models = []
    for name in names:
        if only is None or name in only:
            tell(name)
            pair = _Pair(connection, before, after, name)
            models.append(pair.compare())
    return VersionDiff(before.label, after.label, tuple(models))


class _Pair:
    """One model on both sides."""

    def __init__(
        self, connection: psycopg.Connection, before: Side, after: Side, name: str
    ) -> None:
        self._connection = connection
        self._sides = (before, after)
        self._name = name
        self._before, self._after = before.models.get(name), after.models.get(name)

    def compare(self) -> ModelDiff:
        before, after = self._before, self._after
        if before is None:
            return ModelDiff(self._name, "added", rows_after=self._counted(after))
        if after is None:
            return ModelDiff(self._name, "removed", rows_before=self._counted(before))
        shape = compare_shape(before.columns, after.columns)
        diff = ModelDiff(self._name, "changed", before.rows, after.rows, shape)
        if before.content_key == after.content_key or before.place == after.place:
            return replace(diff, change="unchanged")
        scope = plan_scope(self._connection, before, after)
        if scope.is_empty:
            return replace(diff, partitions_same=scope.same)
        return self._read(diff, before, after, scope)

    def _read(
        self, diff: ModelDiff, before: ModelSide, after: ModelSide, scope: Scope
    ) -> ModelDiff:
        for side, rows in zip(self._sides, (scope.before, scope.after), strict=True):
            require_places(self._connection, side.label.name, (place for place, _ in rows.places))
        key, key_source = _key(before, after)
        columns = compared_columns(before.columns, after.columns, key, _hidden(before, after))
        diff = replace(diff, key=key, key_source=key_source, partitions_same=scope.same)
        if not columns:
            return self._all_replaced(diff, before, after)
        comparison = Comparison(scope.before, scope.after, columns, len(key))
        found = find_differences(self._connection, comparison)
        return replace(
            found.into(diff, scope),
            rows_before=self._rows(before, found.rows[0]),
            rows_after=self._rows(after, found.rows[1]),
        )

    def _all_replaced(self, diff: ModelDiff, before: ModelSide, after: ModelSide) -> ModelDiff:
        """No column is on both sides, so no row is."""
        old, new = self._rows(before, None), self._rows(after, None)
        return replace(
            diff, rows_before=old, rows_after=new, counts=RowCounts(added=new, removed=old)
        )

    def _rows(self, side: ModelSide, measured: int | None) -> int:
        """Known beforehand, or measured (then the side was read as a whole), or counted now."""
        if side.rows is not None:
            return side.rows
        return measured if measured is not None else self._counted(side) or 0

    def _counted(self, side: ModelSide | None) -> int | None:
        if side is None or side.rows is not None:
            return side.rows if side else None
        require_places(self._connection, self._name, [side.place])
        row = self._connection.execute(
            statement(
                "select count(*) from {relation}",
                relation=qualified(side.place.schema, side.place.name),
            )
        ).fetchone()
        return int(row[0]) if row else None


def _key(before: ModelSide, after: ModelSide) -> tuple[tuple[str, ...], Any]:
    """The newer side's key, if both sides have its columns."""
    known = [{column.name for column in side.columns} for side in (before, after)]
    for side in (after, before):
        state = side.state
        if state and state.key and all(set(state.key) <= names for names in known):
            return state.key, state.key_source
    return (), None


def _hidden(before: ModelSide, after: ModelSide) -> frozenset[str]:
    """A column that is sensitive on either side is; of a side that says nothing, all are."""
    sides = (side.state.sensitive if side.state else _HIDE_ALL for side in (before, after))
    return frozenset().union(*sides)

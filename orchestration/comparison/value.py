"""What differs between two versions, as a value: counts are exact, examples are few.

Nothing here holds the value of a sensitive field: where an example would show one, it has `HIDDEN`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from orchestration.publication.shapes import ShapeChange

HIDDEN = "(not shown)"
Change = Literal["added", "removed", "changed", "unchanged"]
KeySource = Literal["primary_key", "unique_test"]


@dataclass(frozen=True)
class SideLabel:
    """What is compared: a version with the code it came from, or a preview."""

    name: str
    pipeline: str
    state: str
    commit: str | None = None
    dirty: bool | None = None


@dataclass(frozen=True)
class Example:
    """One row, by key, in the order of the key's columns. A value is text, or None for null.

    Of an added or removed row only the key is given.
    """

    key: tuple[str | None, ...]
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class ColumnChange:
    """A column that is in both; `rows` counts the keys whose value is another one."""

    column: str
    rows: int
    is_hidden: bool = False
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class RowCounts:
    """Rows that only one side has, and rows of the same key that differ.

    Without a key there are no changed rows: a row that differs is one removed and one added.
    """

    added: int = 0
    removed: int = 0
    changed: int = 0

    @property
    def total(self) -> int:
        return self.added + self.removed + self.changed


@dataclass(frozen=True)
class PartitionChange:
    """One partition that was read, because its key differs or only one side has it.

    A row that moved to another partition is counted where it is now. Row counts are None on a side
    that has no partitions.
    """

    partition: str
    rows_before: int | None
    rows_after: int | None
    counts: RowCounts


@dataclass(frozen=True)
class ModelDiff:
    """One model on both sides. `key` is empty when nothing declares one: rows are compared whole.

    `duplicate_keys` counts keys that more than one row has on some side; those rows are compared
    whole too. `partitions` are those that were read, `partitions_same` the number that need not be.
    """

    model: str
    change: Change
    rows_before: int | None = None
    rows_after: int | None = None
    shape: ShapeChange = field(default_factory=ShapeChange)
    key: tuple[str, ...] = ()
    key_source: KeySource | None = None
    counts: RowCounts = RowCounts()
    duplicate_keys: int = 0
    columns: tuple[ColumnChange, ...] = ()
    added_examples: tuple[Example, ...] = ()
    removed_examples: tuple[Example, ...] = ()
    partitions: tuple[PartitionChange, ...] = ()
    partitions_same: int = 0

    @property
    def is_same(self) -> bool:
        """Whether a reader sees the same rows in the same columns."""
        shape = self.shape
        changed = shape.added or shape.dropped or shape.retyped or self.counts.total
        return self.change in ("changed", "unchanged") and not changed


@dataclass(frozen=True)
class VersionDiff:
    """All models of both sides that readers see, by name."""

    before: SideLabel
    after: SideLabel
    models: tuple[ModelDiff, ...]

    @property
    def differing(self) -> tuple[ModelDiff, ...]:
        return tuple(model for model in self.models if not model.is_same)

    @property
    def same(self) -> tuple[str, ...]:
        return tuple(model.model for model in self.models if model.is_same)

    def as_json(self) -> dict[str, Any]:
        return {
            "before": asdict(self.before),
            "after": asdict(self.after),
            "same": list(self.same),
            "models": [_model_json(model) for model in self.differing],
        }


def _model_json(model: ModelDiff) -> dict[str, Any]:
    shown = asdict(model)
    shown["shape"] = {
        "added": [column._asdict() for column in model.shape.added],
        "dropped": [column._asdict() for column in model.shape.dropped],
        "retyped": [
            {"name": old.name, "before": old.type, "after": new.type}
            for old, new in model.shape.retyped
        ],
    }
    for name in ("added_examples", "removed_examples"):
        shown[name] = [dict(zip(model.key, row.key, strict=True)) for row in getattr(model, name)]
    shown["columns"] = [
        {
            "column": change.column,
            "rows": change.rows,
            "is_hidden": change.is_hidden,
            "examples": [_example_json(model.key, change, row) for row in change.examples],
        }
        for change in model.columns
    ]
    return shown


def _example_json(key: tuple[str, ...], change: ColumnChange, row: Example) -> Mapping[str, Any]:
    found: dict[str, Any] = {"key": dict(zip(key, row.key, strict=True))}
    if not change.is_hidden:
        found |= {"before": row.before, "after": row.after}
    return found

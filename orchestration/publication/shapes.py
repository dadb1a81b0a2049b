"""The columns that readers see of a model, and what of them a new version would change.

Pure functions over column lists, so that a break is found before a gate spends time on it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Column(NamedTuple):
    """A column with its exact type as `format_type` writes it, e.g. `character varying(40)`."""

    name: str
    type: str


@dataclass(frozen=True)
class Shape:
    """What readers see of a model. `number` grows with every change that takes something from them.

    `renamed` maps a column to the name that it has in relations from before it was renamed.
    """

    columns: tuple[Column, ...]
    number: int = 1
    renamed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ShapeChange:
    """How new columns differ from the published ones; `retyped` pairs (published, new)."""

    added: tuple[Column, ...] = ()
    dropped: tuple[Column, ...] = ()
    retyped: tuple[tuple[Column, Column], ...] = ()

    @property
    def breaks(self) -> bool:
        """Whether people who read the view today would notice."""
        return bool(self.dropped or self.retyped)

    @property
    def taken(self) -> frozenset[str]:
        """The published columns that would not be there any more as they are."""
        return frozenset(c.name for c in (*self.dropped, *(before for before, _ in self.retyped)))


def columns_from_json(value: Iterable[Mapping[str, Any]]) -> tuple[Column, ...]:
    """`[{"name", "type"}, …]`, as the warehouse keeps it, in order."""
    return tuple(Column(str(column["name"]), str(column["type"])) for column in value)


def columns_to_json(columns: Iterable[Column]) -> list[dict[str, str]]:
    return [column._asdict() for column in columns]


def publishable(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns that readers see; a name that starts with an underscore is Sluice's own."""
    return tuple(column for column in columns if not column.name.startswith("_"))


def compare_shape(published: Sequence[Column], new: Sequence[Column]) -> ShapeChange:
    """What publishing `new` would change; both may hold internal columns, which don't count.

    The order of columns doesn't matter: the published view keeps its own.
    """
    before = {column.name: column for column in publishable(published)}
    after = {column.name: column for column in publishable(new)}
    return ShapeChange(
        added=tuple(column for name, column in after.items() if name not in before),
        dropped=tuple(column for name, column in before.items() if name not in after),
        retyped=tuple(
            (column, after[name])
            for name, column in before.items()
            if name in after and after[name].type != column.type
        ),
    )


def append_columns(present: Sequence[Column], wanted: Iterable[Column]) -> tuple[Column, ...]:
    """What a view can become without being made anew: what it has, then what it lacks."""
    names = {column.name for column in present}
    return (*present, *(column for column in wanted if column.name not in names))


def widen(shape: Shape, new: Sequence[Column]) -> Shape:
    """The shape with the columns that it lacks; nothing is taken from readers."""
    columns = append_columns(publishable(shape.columns), publishable(new))
    return Shape(columns, shape.number, shape.renamed)


def reshape(shape: Shape, new: Sequence[Column], renamed: Mapping[str, str]) -> Shape:
    """The next shape, in which every column is as it is in `new`, at its old place if it had one.

    `renamed` maps old names to new ones.
    """
    after = {column.name: column for column in publishable(new)}
    kept = [renamed.get(name, name) for name, _ in publishable(shape.columns)]
    kept_once = dict.fromkeys(name for name in kept if name in after)
    columns = append_columns([after[name] for name in kept_once], after.values())
    before = {new_name: old for old, new_name in renamed.items() if new_name in after}
    return Shape(columns, shape.number + 1, {**shape.renamed, **before})

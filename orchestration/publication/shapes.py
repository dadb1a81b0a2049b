"""What may become of a published view's columns: some are added, none is dropped or retyped.

Pure functions over column lists, so that a break is found before a gate spends time on it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from orchestration.errors import ConfigurationError


class Column(NamedTuple):
    """A column with its exact type as `format_type` writes it, e.g. `character varying(40)`."""

    name: str
    type: str


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


def merge_columns(published: Sequence[Column], new: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of the published view afterwards: what it had, then what is new."""
    return (*publishable(published), *compare_shape(published, new).added)


def require_compatible(
    changes: Mapping[str, ShapeChange], missing_models: Sequence[str] = ()
) -> None:
    """Raises `ConfigurationError` (`shape_change`) that lists every dropped or retyped column."""
    lines = [f"{model} is published but no longer built" for model in missing_models]
    for model, change in changes.items():
        lines += [f"{model}.{column.name} was dropped" for column in change.dropped]
        lines += [
            f"{model}.{before.name} was {before.type} and is now {after.type}"
            for before, after in change.retyped
        ]
    if lines:
        raise ConfigurationError(
            "people read what this would take away: "
            + "; ".join(lines)
            + ". Keep each column with "
            "its published type (add the new one under another name), or publish the changed model "
            "under a new name beside the old one",
            code="shape_change",
        )

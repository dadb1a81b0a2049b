"""Whether a version may take something from readers: the pipeline file says so, and nobody needs it.

All that stands in the way is said at once, with the lines to write. The pipeline file is the place,
not an option of a command: scheduled and resumed runs read it, and it is reviewed with the model.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestration.errors import ConfigurationError
from orchestration.pipelines.shape_changes import AllowedShapeChange
from orchestration.publication.dependants import Dependant
from orchestration.publication.shapes import Column, ShapeChange

_LISTED = 12


@dataclass(frozen=True)
class Loss:
    """One thing that readers would notice, and what the entry that allows it must say."""

    kind: Literal["drop", "retype", "withdraw"]
    subject: str
    text: str
    to: str | None = None

    @property
    def entry(self) -> str:
        to = f", to: {self.to}" if self.to else ""
        return f"{{{self.kind}: {self.subject}{to}, reason: …}}"


def losses(
    changes: Mapping[str, ShapeChange], missing_models: Iterable[str] = ()
) -> Iterator[Loss]:
    """All that readers would notice; a renamed column is one that is dropped."""
    for model in missing_models:
        yield Loss("withdraw", model, f"{model} is published and would not be any more")
    for model, change in changes.items():
        for column in change.dropped:
            name = f"{model}.{column.name}"
            yield Loss("drop", name, f"{name} was dropped")
        for before, after in change.retyped:
            name = f"{model}.{before.name}"
            text = f"{name} was {before.type} and is now {after.type}"
            yield Loss("retype", name, text, after.type)


@dataclass(frozen=True)
class Allowed:
    """What the pipeline file allows to be taken from readers; nothing unless it says so."""

    entries: tuple[AllowedShapeChange, ...] = ()

    def permits(self, loss: Loss) -> bool:
        return any(
            getattr(entry, loss.kind) == loss.subject and entry.to == loss.to
            for entry in self.entries
        )

    def renames(self, model: str, change: ShapeChange) -> dict[str, str]:
        """old → new name, where the one goes and the other comes with this change."""
        gone, come = _names(change.dropped), _names(change.added)
        return {
            entry.column: str(entry.to)
            for entry in self.entries
            if entry.rename and entry.model == model
            if entry.column in gone and entry.to in come
        }

    def reasons(self, model: str) -> str:
        """Why readers of the model lose something, for the record."""
        said = (entry.reason.strip() for entry in self.entries if entry.model == model)
        return "; ".join(dict.fromkeys(said))


def require_allowed(
    changes: Mapping[str, ShapeChange],
    missing_models: Sequence[str] = (),
    allowed: Allowed | None = None,
    dependants: Iterable[Dependant] = (),
) -> None:
    """Raises `ConfigurationError`: `shape_change` when an entry is missing, `shape_in_use` when
    other people's objects need what would go."""
    allowed = allowed or Allowed()
    renamed = {
        f"{model}.{old}"
        for model, change in changes.items()
        for old in allowed.renames(model, change)
    }
    lost = [
        loss
        for loss in losses(changes, missing_models)
        if not allowed.permits(loss) and loss.subject not in renamed
    ]
    needed = in_use(changes, missing_models, dependants)
    if lost:
        raise _not_allowed(lost, changes, needed)
    if needed:
        raise shape_in_use(needed)


def in_use(
    changes: Mapping[str, ShapeChange],
    missing_models: Collection[str],
    dependants: Iterable[Dependant],
) -> list[Dependant]:
    """The dependants that need what would go."""
    return [
        item
        for item in dependants
        if (item.model in missing_models and not item.is_development)
        or (
            item.model in changes
            and changes[item.model].breaks
            and item.needs(changes[item.model].taken)
        )
    ]


def _not_allowed(
    lost: Sequence[Loss], changes: Mapping[str, ShapeChange], needed: Sequence[Dependant]
) -> ConfigurationError:
    rename = (
        " A column that only gets another name: {rename: model.column, to: new_name, reason: …}."
        if any(change.dropped and change.added for change in changes.values())
        else ""
    )
    beware = f" Beware: {_listed(needed)}." if needed else ""
    return ConfigurationError(
        f"people read what this would take away: {'; '.join(loss.text for loss in lost)}. Keep "
        "each column with its published type (add the new one under another name), or allow the "
        f"change in the pipeline file: `shape_changes: [{', '.join(loss.entry for loss in lost)}]`."
        f"{rename}{beware} docs/publication.md says more",
        code="shape_change",
    )


def shape_in_use(needed: Sequence[Dependant]) -> ConfigurationError:
    """The failure that lists who needs what would go."""
    return ConfigurationError(
        f"other people's work would break: {_listed(needed)}. Nothing was changed; ask its owners to "
        "do without, or keep the column, then run the same command again",
        code="shape_in_use",
    )


def _listed(needed: Sequence[Dependant]) -> str:
    more = f"; and {len(needed) - _LISTED} more" if len(needed) > _LISTED else ""
    return "; ".join(str(item) for item in needed[:_LISTED]) + more


def _names(columns: Iterable[Column]) -> set[str]:
    return {column.name for column in columns}

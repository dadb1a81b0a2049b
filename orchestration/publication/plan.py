"""Which views must change before a version can be shown. A pure plan; nothing is touched here.

A view changes only when the relation it shows, or its columns, change; so a night that changed one
model replaces one view.
"""

from dataclasses import dataclass, replace

from orchestration.errors import ConfigurationError, DestinationFailure
from orchestration.publication.shapes import (
    Column,
    compare_shape,
    merge_columns,
    require_compatible,
)
from orchestration.publication.state import PublicationState, Target
from orchestration.publication.views import HIDDEN_COLUMNS, Slot, Source, other_slot


@dataclass(frozen=True)
class RegisterModel:
    """Claim the model, or note its new columns, before any view has them."""

    model: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class PointSlotView:
    """Point one slot view at one relation. `moves` is false when only columns are added."""

    slot: Slot
    model: str
    relation: str
    source: Source
    columns: tuple[Column, ...]
    moves: bool


@dataclass(frozen=True)
class ShowModel:
    """Make or widen the published view."""

    model: str
    columns: tuple[Column, ...]
    options: tuple[str, ...]
    is_new: bool


Step = RegisterModel | PointSlotView | ShowModel


@dataclass(frozen=True)
class SlotPlan:
    slot: Slot
    steps: tuple[Step, ...]

    @property
    def needs_grace(self) -> bool:
        """Whether somebody with an old snapshot could meet what these steps change."""
        return any(isinstance(step, PointSlotView) and step.moves for step in self.steps)


def plan_slot(state: PublicationState, *, allow_narrower: bool = False) -> SlotPlan:
    """What it takes to have the version in the slot that isn't active.

    Raises `ConfigurationError` (`shape_change`, `model_taken`) and `DestinationFailure`
    (`lineage_incomplete`). `allow_narrower` is for going back to a version from before a model or a
    column was added: the column is null, the model refuses to be read.
    """
    require_ownership(state)
    _require_relations(state)
    changes = {
        target.model: compare_shape(state.registered[target.model].columns, target.columns)
        for target in state.targets
        if target.model in state.registered
    }
    if allow_narrower:
        require_compatible(
            {model: replace(change, dropped=()) for model, change in changes.items()}
        )
    else:
        require_compatible(changes, state.missing_models)
    pointer = state.pointer
    slot = other_slot(pointer.active_slot) if pointer else "a"
    if pointer and pointer.version_id == state.version_id:
        return SlotPlan(pointer.active_slot, ())
    return SlotPlan(
        slot, tuple(step for target in state.targets for step in _steps(state, target, slot))
    )


def require_ownership(state: PublicationState) -> None:
    """Raises `ConfigurationError` (`model_taken`) if another pipeline has one of the models."""
    taken = [
        f"{target.model} (by {state.registered[target.model].pipeline})"
        for target in state.targets
        if target.model in state.registered
        and state.registered[target.model].pipeline != state.pipeline
    ]
    if taken:
        raise ConfigurationError(
            f"a published model belongs to one pipeline, and {', '.join(taken)} is taken; "
            f"leave it out of pipeline {state.pipeline} or give the model another name",
            code="model_taken",
        )


def _require_relations(state: PublicationState) -> None:
    gone = [
        f"{target.model} ({target.relation})"
        for target in state.targets
        if not target.columns or not set(target.columns) <= set(target.source.columns)
    ]
    if gone or not state.targets:
        raise DestinationFailure(
            f"version {state.version_id} cannot be shown, for want of relations in the store: "
            f"{', '.join(gone) or 'it publishes no model'}; run the pipeline again to build them",
            code="lineage_incomplete",
        )


def _steps(state: PublicationState, target: Target, slot: Slot) -> list[Step]:
    registered = state.registered.get(target.model)
    columns = merge_columns(registered.columns if registered else (), target.columns)
    steps: list[Step] = []
    if registered is None or registered.columns != columns:
        steps.append(RegisterModel(target.model, columns))
    for each in (slot, other_slot(slot)):
        existing = state.slot_views.get((each, target.model))
        is_idle = each == slot
        if existing is None or (is_idle and existing.source.name != target.source.name):
            relation, source = target.relation, target.source
        elif existing.columns != (*HIDDEN_COLUMNS, *columns) or (
            is_idle and not existing.is_recorded
        ):
            relation, source = existing.relation, existing.source
        else:
            continue
        moves = existing is not None and existing.source.name != source.name
        steps.append(PointSlotView(each, target.model, relation, source, columns, moves))
    view = state.published_views.get(target.model)
    if view is None or view.columns != columns:
        steps.append(
            ShowModel(target.model, columns, view.options if view else (), is_new=view is None)
        )
    return steps

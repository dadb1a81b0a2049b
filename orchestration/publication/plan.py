"""Which views must change before a version can be shown. A pure plan; nothing is touched here.

A view changes only when the relation it shows, or its columns, change; so a night that changed one
model replaces one view. Readers notice only the last steps, and only those of a change of shape.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from orchestration.errors import ConfigurationError, DestinationFailure
from orchestration.publication.shape_rules import Allowed, require_allowed
from orchestration.publication.shapes import (
    Column,
    Shape,
    ShapeChange,
    append_columns,
    compare_shape,
    publishable,
    reshape,
    widen,
)
from orchestration.publication.state import PublicationState, Target
from orchestration.publication.views import (
    DEFERRED_SCHEMA,
    HIDDEN_COLUMNS,
    PARTITION,
    PUBLISHED_SCHEMA,
    Schema,
    Slot,
    Source,
    other_slot,
)


@dataclass(frozen=True)
class RegisterModel:
    """Claim the model, or note its new columns, before any view has them."""

    model: str
    shape: Shape


@dataclass(frozen=True)
class DropSlotView:
    """Drop what a change of shape that was given up, or is long done, has left; nobody reads it."""

    slot: Slot
    model: str
    shape: int


@dataclass(frozen=True)
class PointSlotView:
    """Point one slot view at one relation. `moves` is false when only columns are added."""

    slot: Slot
    model: str
    shape: Shape
    relation: str
    source: Source
    columns: tuple[Column, ...]
    moves: bool


@dataclass(frozen=True)
class ShowModel:
    """Make or widen a view that people read."""

    schema: Schema
    model: str
    shape: Shape
    columns: tuple[Column, ...]
    options: tuple[str, ...]
    is_new: bool


@dataclass(frozen=True)
class ReshapeModel:
    """Make the model's published views anew, over the slot views of the next shape."""

    model: str
    shape: Shape
    change: ShapeChange
    reason: str


@dataclass(frozen=True)
class WithdrawModel:
    """Take a model out of publication, with its views."""

    model: str
    reason: str


Step = RegisterModel | DropSlotView | PointSlotView | ShowModel | ReshapeModel | WithdrawModel
_LAST = (ShowModel, ReshapeModel, WithdrawModel)


@dataclass(frozen=True)
class SlotPlan:
    """`leftovers` may be dropped when all is done, if nobody holds them."""

    slot: Slot
    steps: tuple[Step, ...]
    leftovers: tuple[DropSlotView, ...] = ()

    @property
    def needs_grace(self) -> bool:
        """Whether somebody with an old snapshot could meet what these steps change."""
        return any(
            isinstance(step, ReshapeModel) or (isinstance(step, PointSlotView) and step.moves)
            for step in self.steps
        )


def plan_slot(
    state: PublicationState, allowed: Allowed | None = None, *, allow_narrower: bool = False
) -> SlotPlan:
    """What it takes to have the version in the slot that isn't active.

    Raises `ConfigurationError` (`shape_change`, `shape_in_use`, `model_taken`) and
    `DestinationFailure` (`lineage_incomplete`). `allow_narrower` is for going back to an earlier
    version: it is shown in the shape that readers have now, missing columns null and others cast.
    """
    allowed = allowed or Allowed()
    require_ownership(state)
    _require_relations(state)
    pointer = state.pointer
    slot = other_slot(pointer.active_slot) if pointer else "a"
    targets = [t for t in state.targets if not allow_narrower or t.model in state.registered]
    changes = {} if allow_narrower else _changes(state)
    missing = [] if allow_narrower else state.missing_models
    require_allowed(changes, missing, allowed, state.dependants)
    if pointer and pointer.version_id == state.version_id:
        return SlotPlan(pointer.active_slot, ())
    shapes = {
        target.model: state.registered[target.model].shape
        if allow_narrower
        else _next_shape(state, target, changes, allowed)
        for target in targets
    }
    steps = [
        step
        for target in targets
        for step in _steps(state, target, slot, shapes[target.model], changes, allowed)
    ]
    steps += [WithdrawModel(model, allowed.reasons(model)) for model in missing]
    # What readers can notice comes last, when everything else has succeeded.
    steps.sort(key=lambda step: _LAST.index(type(step)) if isinstance(step, _LAST) else -1)
    leftovers = (
        DropSlotView(*key) for key in state.slot_views if _is_left_over(key, shapes, state)
    )
    return SlotPlan(slot, tuple(steps), tuple(leftovers))


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


def _changes(state: PublicationState) -> dict[str, ShapeChange]:
    """How the version differs from what people can read; before there is a view, nobody can."""
    return {
        target.model: compare_shape(state.registered[target.model].shape.columns, target.columns)
        for target in state.targets
        if target.model in state.registered
        and (PUBLISHED_SCHEMA, target.model) in state.published_views
    }


def _next_shape(
    state: PublicationState, target: Target, changes: Mapping[str, ShapeChange], allowed: Allowed
) -> Shape:
    registered = state.registered.get(target.model)
    if registered is None:
        return Shape(publishable(target.columns))
    change = changes.get(target.model) or compare_shape(registered.shape.columns, target.columns)
    if change.breaks:
        return reshape(registered.shape, target.columns, allowed.renames(target.model, change))
    return widen(registered.shape, target.columns)


def _steps(
    state: PublicationState,
    target: Target,
    slot: Slot,
    shape: Shape,
    changes: Mapping[str, ShapeChange],
    allowed: Allowed,
) -> Iterator[Step]:
    model = target.model
    change = changes.get(model)
    registered = state.registered.get(model)
    breaks = change is not None and change.breaks
    if not breaks and (registered is None or registered.shape != shape):
        yield RegisterModel(model, shape)
    hidden = _hidden(state, target)
    for each in (slot, other_slot(slot)):
        yield from _point(state, target, each, shape, hidden, is_idle=each == slot)
    if change is not None and breaks:
        yield ReshapeModel(model, shape, change, allowed.reasons(model))
    for schema in (PUBLISHED_SCHEMA, DEFERRED_SCHEMA)[: 2 if hidden else 1]:
        view = state.published_views.get((schema, model))
        if breaks and view is not None:
            continue
        present = view.columns if view else ()
        wanted = shape.columns if schema == PUBLISHED_SCHEMA else (*shape.columns, PARTITION)
        columns = append_columns(present, wanted)
        if view is None or view.columns != columns:
            options = view.options if view else ()
            yield ShowModel(schema, model, shape, columns, options, is_new=view is None)


def _hidden(state: PublicationState, target: Target) -> tuple[Column, ...]:
    """Columns of the slot views, beyond those that readers see: dbt may ask for partitions."""
    is_deferred = (DEFERRED_SCHEMA, target.model) in state.published_views
    has_partitions = any(column.name == PARTITION.name for column in target.source.columns)
    return (PARTITION,) if is_deferred or has_partitions else ()


def _point(
    state: PublicationState,
    target: Target,
    slot: Slot,
    shape: Shape,
    hidden: tuple[Column, ...],
    *,
    is_idle: bool,
) -> Iterator[Step]:
    model = target.model
    existing = state.slot_views.get((slot, model, shape.number))
    registered = state.registered.get(model)
    shown = existing
    if registered and registered.shape.number != shape.number:
        # What an earlier attempt left of the next shape shows whatever it was made for.
        shown = state.slot_views.get((slot, model, registered.shape.number))
    relation, source = target.relation, target.source
    if shown is not None and not (is_idle and shown.source.name != target.source.name):
        relation, source = shown.relation, shown.source
    wanted = (*shape.columns, *hidden)
    present = existing.columns[len(HIDDEN_COLUMNS) :] if existing else ()
    columns = append_columns(present, wanted)
    if not set(wanted) <= set(columns):
        yield DropSlotView(slot, model, shape.number)
        existing, columns = None, wanted
    is_right = existing is not None and (
        existing.source.name == source.name
        and existing.columns == (*HIDDEN_COLUMNS, *columns)
        and (existing.is_recorded or not is_idle)
    )
    if not is_right:
        moves = existing is not None and existing.source.name != source.name
        yield PointSlotView(slot, model, shape, relation, source, columns, moves)


def _is_left_over(
    key: tuple[Slot, str, int], shapes: Mapping[str, Shape], state: PublicationState
) -> bool:
    """Slot views of another shape; those that a change of shape replaces go with it."""
    _, model, number = key
    registered = state.registered.get(model)
    return model in shapes and number not in {
        shapes[model].number,
        registered.shape.number if registered else None,
    }

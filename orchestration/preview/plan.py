"""What a preview builds and what it reuses, with the reasons: a value, nothing is touched.

The same plan as that of a run on the published data, so what it says is what a run would build.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import psycopg

from orchestration.preview.base import Base
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys
from orchestration.warehouse.dbt.parts import Reason, explain
from orchestration.warehouse.dbt.plan import BuildPlan, PlannedRelation
from orchestration.warehouse.dbt.state import DbtState, ModelState
from orchestration.warehouse.planning import plan_now
from orchestration.warehouse.segments.layout import Piece
from orchestration.warehouse.segments.places import Places

Action = Literal["build", "reuse", "left_out"]


@dataclass(frozen=True)
class ModelPlan:
    """What happens to one model, and why its content is another than the published one.

    Without reasons it is the published one. `partitions` are those to build, None for a model that
    is kept as a whole; `partitions_reused` are there already. A model that is left out changed, but
    was not selected.
    """

    model: str
    action: Action
    is_published: bool
    reasons: tuple[Reason, ...] = ()
    partitions: tuple[str, ...] | None = None
    partitions_reused: int = 0

    @property
    def is_changed(self) -> bool:
        return bool(self.reasons)

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "action": self.action,
            "published": self.is_published,
            "reasons": [
                {"kind": reason.kind, "subject": reason.subject, "text": str(reason)}
                for reason in self.reasons
            ],
            "partitions": None if self.partitions is None else list(self.partitions),
            "partitions_reused": self.partitions_reused,
        }


@dataclass(frozen=True)
class PreviewPlan:
    """`build` is what dbt gets to do in `places`; `removed` were published and are no longer."""

    models: tuple[ModelPlan, ...]
    removed: tuple[str, ...]
    build: BuildPlan
    places: Places

    @property
    def changed(self) -> tuple[str, ...]:
        """The models of the preview whose content is another than the published one."""
        return tuple(m.model for m in self.models if m.is_changed and m.action != "left_out")

    @property
    def left_out(self) -> tuple[str, ...]:
        """The models that changed and were not selected."""
        return tuple(m.model for m in self.models if m.action == "left_out")


@dataclass(frozen=True)
class Tree:
    """The working tree's models: what they are, and which of them readers would see."""

    graph: ProjectGraph
    keys: Mapping[str, ModelKeys]
    state: DbtState
    publishes: Collection[str]

    @property
    def states(self) -> Mapping[str, ModelState]:
        return self.state.models

    @property
    def dbt_manifest(self) -> Mapping[str, Any]:
        return self.state.manifest


def plan_preview(
    connection: psycopg.Connection,
    base: Base,
    tree: Tree,
    *,
    schema: str,
    selected: Collection[str] | None = None,
) -> PreviewPlan:
    """The plan for building the selected models and what they read, against the base's data."""
    wanted = _with_ancestors(tree.graph, selected)
    graph = replace(tree.graph, models=tuple(m for m in tree.graph.models if m.name in wanted))
    build = named_for_readers(without_merges(plan_now(connection, graph, dict(tree.keys), schema)))
    planned = {relation.model for relation in build.build}
    models = []
    for model in tree.graph.models:
        reasons = tuple(_reasons(base, tree, model))
        action: Action = "build" if model.name in planned else "reuse"
        if model.name not in wanted:
            action = "left_out" if reasons else "reuse"
        models.append(_model_plan(model, action, reasons, build, tree))
    names = {model.name for model in tree.graph.models}
    removed = tuple(
        name
        for name, known in base.models.items()
        if known.published and (name not in names or name not in tree.publishes)
    )
    own = frozenset(relation.relation_name for relation in build.build)
    return PreviewPlan(tuple(models), removed, build, Places(schema, own, reads_staging=False))


def without_merges(plan: BuildPlan) -> BuildPlan:
    """The plan with views over all the segments there are: a preview's views need not stay small."""
    merged = {planned.relation_name: planned.merged for planned in plan.merges}

    def apart(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
        return tuple(one for piece in pieces for one in merged.get(piece.segment, (piece,)))

    build = tuple(
        replace(planned, pieces=None if planned.pieces is None else apart(planned.pieces))
        for planned in plan.build
        if not planned.merged
    )
    return replace(
        plan, build=build, pieces={name: apart(pieces) for name, pieces in plan.pieces.items()}
    )


def named_for_readers(plan: BuildPlan) -> BuildPlan:
    """The plan with each model under its own name; a segment keeps the name it has."""

    def renamed(planned: PlannedRelation) -> PlannedRelation:
        if planned.partitions is not None:
            return planned
        return replace(planned, relation_name=planned.model)

    return replace(plan, build=tuple(map(renamed, plan.build)))


def _with_ancestors(graph: ProjectGraph, selected: Collection[str] | None) -> set[str]:
    if selected is None:
        return {model.name for model in graph.models}
    wanted = set(selected)
    # Parents come before children, so one walk from the end finds them all.
    for model in reversed(graph.models):
        if model.name in wanted:
            wanted.update(model.parents)
    return wanted


def _reasons(base: Base, tree: Tree, model: ModelNode) -> Iterator[Reason]:
    known = base.models.get(model.name)
    content = tree.keys[model.name].content_key
    if known is not None and known.content_key == content:
        return
    if known is None:
        yield Reason("new_model")
        return
    before = base.states.get(model.name)
    found = explain(before.parts, tree.states[model.name].parts) if before else []
    found += [
        Reason("upstream_model", parent)
        for parent in model.parents
        if parent not in base.models
        or base.models[parent].content_key != tree.keys[parent].content_key
    ]
    yield from found or [Reason("unrecorded")]


def _model_plan(
    model: ModelNode, action: Action, reasons: tuple[Reason, ...], build: BuildPlan, tree: Tree
) -> ModelPlan:
    found = ModelPlan(model.name, action, model.name in tree.publishes, reasons)
    if not model.is_partitioned or action == "left_out":
        return found
    new = build.new_partitions.get(model.name, ())
    known = tree.keys[model.name].partition_keys or {}
    return replace(found, partitions=new, partitions_reused=len(known) - len(new))

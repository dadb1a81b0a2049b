"""A preview's plan: what is built, what is reused, what is left out, and the reason for each."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from orchestration.preview import plan as planning
from orchestration.preview.plan import PreviewPlan, Tree, plan_preview, without_merges
from orchestration.preview.words import told, unchanged
from orchestration.publication.versions import VersionModel
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph
from orchestration.warehouse.dbt.keys import compute_keys, definition_inputs, tool_versions
from orchestration.warehouse.dbt.parts import definition_parts
from orchestration.warehouse.dbt.plan import BuildPlan, PlannedRelation, plan_build
from orchestration.warehouse.dbt.state import DbtState, ModelState
from orchestration.warehouse.segments.layout import Piece, Segment

SOURCE = '"sluice"."source"."shop__orders"'
DATA = {"shop.orders": "1" * 64}
WINDOWS = {"shop.orders": {"2024-01-01": "1", "2024-01-02": "2"}}
CONTRACT = (["a", "bigint", False, []], ["_partition", "text", False, []])


def node(name: str, code: str, *parents: str, **changes: Any) -> ModelNode:
    settings: dict[str, Any] = {"kind": "table", "materialized": "versioned", "resources": ()}
    path = f"models/{name}.sql"
    return ModelNode(
        name=name,
        unique_id=f"model.shop.{name}",
        path=path,
        parents=parents,
        compiled_code=code,
        jinja=((path, code),),
        **(settings | changes),
    )


STG = node(
    "stg",
    f"select a, _partition from {SOURCE}",
    kind="view",
    materialized="view",
    resources=("shop.orders",),
)
FCT = node(
    "fct",
    'select a, _partition from "sluice"."model"."stg"',
    "stg",
    partition_by="_partition",
    contract=CONTRACT,
)
AGG = node("agg", 'select count(*) as n from "sluice"."model"."fct"', "fct")
DIM = node("dim", 'select distinct a from "sluice"."model"."stg"', "stg")
MODELS = (STG, FCT, AGG, DIM)


def tree_of(*models: ModelNode, publishes: Collection[str] = ("fct", "agg", "dim")) -> Tree:
    graph = ProjectGraph(models)
    keys = compute_keys(graph, DATA, {}, WINDOWS)
    states = {}
    for model in models:
        inputs = definition_inputs(model, tool_versions(), {})
        parts = definition_parts(model, inputs, ())
        states[model.name] = ModelState(keys[model.name].definition_key, parts)
    return Tree(graph, keys, DbtState({}, states), publishes)


def changed(model: ModelNode, code: str) -> ModelNode:
    return replace(model, compiled_code=code, jinja=((model.path, code),))


class Warehouse:
    """A published version of `MODELS` and the store that it stands on."""

    def __init__(self) -> None:
        self.published = tree_of(*MODELS)
        self.adopted: dict[str, str] = {}
        self.segments: list[Segment] = []
        self.keep(self.published)

    def keep(self, tree: Tree) -> None:
        """What a run of this tree would leave in the store."""
        build = self._plan(tree)
        for planned in build.build:
            if planned.partitions is not None:
                rows = dict.fromkeys(planned.partitions, 1)
                self.segments.append(Segment(planned.relation_name, planned.partitions, rows))
            else:
                self.adopted[planned.store_key] = planned.relation_name

    @property
    def base(self) -> Any:
        keys, states = self.published.keys, self.published.states

        class Base:
            models: Mapping[str, VersionModel] = {
                name: VersionModel(name, name, keys[name].content_key, name != "stg", (), ())
                for name in keys
            }

        Base.states = states  # type: ignore[attr-defined]
        return Base

    def preview(
        self, tree: Tree, monkeypatch: pytest.MonkeyPatch, selected: Collection[str] | None = None
    ) -> PreviewPlan:
        def plan_now(_: object, graph: ProjectGraph, keys: Any, attempt: str) -> BuildPlan:
            return self._plan(replace(tree, graph=graph, keys=keys), attempt)

        monkeypatch.setattr(planning, "plan_now", plan_now)
        connection: Any = None
        return plan_preview(connection, self.base, tree, schema="dev_me", selected=selected)

    def _plan(self, tree: Tree, attempt: str = "run") -> BuildPlan:
        def find(keys: Collection[str]) -> list[Segment]:
            return [s for s in self.segments if not set(keys).isdisjoint(s.keys.values())]

        return plan_build(tree.graph, tree.keys, attempt, lambda _: self.adopted, find)


def actions(plan: PreviewPlan) -> dict[str, str]:
    return {model.model: model.action for model in plan.models}


def reasons(plan: PreviewPlan) -> dict[str, list[str]]:
    return {m.model: [str(reason) for reason in m.reasons] for m in plan.models if m.reasons}


def test_what_did_not_change_is_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Warehouse().preview(tree_of(*MODELS), monkeypatch)
    assert set(actions(plan).values()) == {"reuse"}
    assert (plan.changed, plan.build.build, told(plan)) == ((), (), [])
    assert unchanged(plan) == ["stg", "fct", "agg", "dim"]


def test_an_edit_builds_the_model_and_all_that_reads_it_under_their_own_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    edited = changed(FCT, 'select a + 1 as a, _partition from "sluice"."model"."stg"')
    plan = Warehouse().preview(tree_of(STG, edited, AGG, DIM), monkeypatch)
    assert actions(plan) == {"stg": "reuse", "fct": "build", "agg": "build", "dim": "reuse"}
    assert reasons(plan) == {"fct": ["SQL changed"], "agg": ["upstream model changed: fct"]}
    assert {plan.build.relations[name] for name in ("fct", "agg")} == {"fct", "agg"}
    [fct] = [model for model in plan.models if model.model == "fct"]
    assert (fct.partitions, fct.partitions_reused) == (("2024-01-01", "2024-01-02"), 0)
    segments = [p for p in plan.build.build if p.partitions is not None]
    assert plan.places.own == {"fct", "agg", segments[0].relation_name}
    assert plan.places.schema_of(plan.build.relations["dim"]) == "store"
    assert ("fct", "build 2 partitions", "SQL changed") in told(plan)


def test_what_a_run_built_without_publishing_is_reused_and_still_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse = Warehouse()
    edited = changed(FCT, 'select a + 1 as a, _partition from "sluice"."model"."stg"')
    tree = tree_of(STG, edited, AGG, DIM)
    warehouse.keep(tree)
    plan = warehouse.preview(tree, monkeypatch)
    assert actions(plan)["fct"] == "reuse"
    assert plan.changed == ("fct", "agg")
    assert ("fct", "reuse what an earlier run built", "SQL changed") in told(plan)


def test_partitions_that_are_there_are_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = Warehouse()
    edited = changed(FCT, 'select a + 1 as a, _partition from "sluice"."model"."stg"')
    tree = tree_of(STG, edited, AGG, DIM)
    first = {"2024-01-01": (tree.keys["fct"].partition_keys or {})["2024-01-01"]}
    warehouse.segments.append(Segment("fct__earlier", first, {"2024-01-01": 7}))
    plan = warehouse.preview(tree, monkeypatch)
    [fct] = [model for model in plan.models if model.model == "fct"]
    assert (fct.partitions, fct.partitions_reused) == (("2024-01-02",), 1)
    assert ("fct", "build 1 partition, reuse 1", "SQL changed") in told(plan)
    assert {piece.segment for piece in plan.build.pieces["fct"]} >= {"fct__earlier"}


def test_what_is_not_selected_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of(
        STG,
        changed(FCT, 'select 1 as a, _partition from "sluice"."model"."stg"'),
        AGG,
        changed(DIM, 'select 2 as a from "sluice"."model"."stg"'),
    )
    warehouse = Warehouse()
    plan = warehouse.preview(tree, monkeypatch, selected={"fct"})
    assert actions(plan) == {"stg": "reuse", "fct": "build", "agg": "left_out", "dim": "left_out"}
    assert plan.changed == ("fct",)
    assert plan.left_out == ("agg", "dim")
    assert ("dim", "left out (not selected)", "SQL changed") in told(plan)
    # What a selected model reads is needed, selected or not.
    assert actions(warehouse.preview(tree, monkeypatch, selected={"agg"}))["fct"] == "build"


def test_new_and_removed_models_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    new = node("new", 'select 1 as one from "sluice"."model"."stg"', "stg")
    tree = tree_of(STG, FCT, DIM, new, publishes=("fct", "new"))
    plan = Warehouse().preview(tree, monkeypatch)
    assert reasons(plan) == {"new": ["new model"]}
    assert plan.removed == ("agg", "dim")
    assert ("agg", "no longer published", "it is not in the tree") in told(plan)


def test_a_version_that_recorded_no_parts_gives_no_false_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse = Warehouse()
    edited = changed(DIM, 'select 2 as a from "sluice"."model"."stg"')
    base = warehouse.base
    base.states = {}
    monkeypatch.setattr(Warehouse, "base", base)
    plan = warehouse.preview(tree_of(STG, FCT, AGG, edited), monkeypatch)
    assert reasons(plan) == {"dim": ["changed; the published version does not say in what"]}


def test_segments_are_not_merged_for_a_preview() -> None:
    pieces = tuple(Piece(f"old_{n}", (f"2024-01-0{n}",), rows=1) for n in range(3))
    merged = PlannedRelation(
        "fct", "k", "c", "merged", "table", partitions={}, merged=pieces[:2], made_by_dbt=False
    )
    view = PlannedRelation(
        "fct", "k", "c", "view", "view", pieces=(Piece("merged", ("x",)), pieces[2])
    )
    plan = without_merges(BuildPlan((merged, view), (), {"fct": view.pieces or ()}))
    assert plan.build == (replace(view, pieces=pieces),)
    assert plan.pieces == {"fct": pieces}

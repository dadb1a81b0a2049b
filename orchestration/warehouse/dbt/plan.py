"""What to build and what to reuse, decided before dbt runs: a plan is a value, nothing is touched.

A partitioned model is planned as a view over segments, of which at most one is new: it holds the
partitions that no adopted segment has.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from orchestration.identity import digest
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph, RelationKind
from orchestration.warehouse.dbt.keys import ModelKeys, view_key
from orchestration.warehouse.segments.layout import Piece, Segment, lay_out

Lookup = Callable[[Collection[str]], Mapping[str, str]]
FindSegments = Callable[[Collection[str]], Sequence[Segment]]


def _no_segments(_keys: Collection[str]) -> Sequence[Segment]:
    return ()


@dataclass(frozen=True)
class PlannedRelation:
    """A model's relation in schema store, to be built or there already.

    `store_key` names the relation's content in the store: for a table the content key, for a view
    what it says and over which relations. `parents` are models. A segment has `partitions`
    (partition → key), the view over segments has `pieces`; `merged` are the pieces that a segment
    is copied from. What has `made_by_dbt` false is made by Sluice itself.
    """

    model: str
    store_key: str
    content_key: str
    relation_name: str
    kind: RelationKind
    parents: tuple[str, ...] = ()
    partitions: Mapping[str, str] | None = None
    pieces: tuple[Piece, ...] | None = None
    merged: tuple[Piece, ...] = ()
    made_by_dbt: bool = True


@dataclass(frozen=True)
class BuildPlan:
    """What to build, parents first, and what to reuse. `pieces` has every partitioned model's."""

    build: tuple[PlannedRelation, ...]
    reuse: tuple[PlannedRelation, ...]
    pieces: Mapping[str, tuple[Piece, ...]] = field(default_factory=dict)

    @cached_property
    def relations(self) -> Mapping[str, str]:
        """model → relation that shows it, of everything."""
        return {
            planned.model: planned.relation_name
            for planned in (*self.reuse, *self.build)
            if planned.partitions is None
        }

    @property
    def by_dbt(self) -> tuple[PlannedRelation, ...]:
        """What dbt builds: whole tables, views, and new segments."""
        return tuple(planned for planned in self.build if planned.made_by_dbt)

    @property
    def merges(self) -> tuple[PlannedRelation, ...]:
        return tuple(planned for planned in self.build if planned.merged)

    @property
    def new_partitions(self) -> Mapping[str, tuple[str, ...]]:
        """model → partitions that dbt has to build."""
        return {
            planned.model: tuple(sorted(planned.partitions))
            for planned in self.by_dbt
            if planned.partitions is not None
        }


def plan_build(
    graph: ProjectGraph,
    keys: Mapping[str, ModelKeys],
    attempt: str,
    lookup: Lookup,
    find_segments: FindSegments = _no_segments,
) -> BuildPlan:
    """Decides for each model whether its relation exists. Reads through the lookups, changes nothing.

    `lookup` maps store keys to adopted relations, `find_segments` finds the segments that hold any
    of some partition keys; `attempt` is a token that no other attempt has, so that two attempts
    never build under one name.
    """
    return _Planner(graph, keys, attempt, lookup, find_segments).plan()


def relation_name(model: str, store_key: str, attempt: str) -> str:
    """`<model>__<12 hex>`; with dbt's own suffix for work in progress it still fits 63 bytes."""
    return f"{model}__{hashlib.sha256(f'{store_key}:{attempt}'.encode()).hexdigest()[:12]}"


class _Planner:
    def __init__(
        self,
        graph: ProjectGraph,
        keys: Mapping[str, ModelKeys],
        attempt: str,
        lookup: Lookup,
        find_segments: FindSegments,
    ) -> None:
        self._graph, self._keys, self._attempt = graph, keys, attempt
        self._lookup, self._find_segments = lookup, find_segments
        self._build: list[PlannedRelation] = []
        self._reuse: list[PlannedRelation] = []
        self._pieces: dict[str, tuple[Piece, ...]] = {}
        self._relations = {name: model.relation_name for name, model in graph.outside.items()}
        self._fresh: set[str] = set()

    def plan(self) -> BuildPlan:
        tables = [self._keys[m.name].content_key for m in self._graph.models if m.kind == "table"]
        adopted = dict(self._lookup(tables)) if tables else {}
        for model in self._graph.models:
            planned = self._planned(model)
            if model.kind == "view" and not self._fresh & set(model.parents):
                adopted |= self._lookup([planned.store_key])
            found = adopted.get(planned.store_key)
            if model.is_partitioned:
                self._pieces[model.name] = self._lay_out(model, planned, is_new=found is None)
            if found:
                self._reuse.append(replace(planned, relation_name=found))
            elif not model.is_partitioned:
                self._build.append(planned)
            if not found:
                self._fresh.add(model.name)
            self._relations[model.name] = found or planned.relation_name
        return BuildPlan(tuple(self._build), tuple(self._reuse), self._pieces)

    def _planned(self, model: ModelNode) -> PlannedRelation:
        own = self._keys[model.name]
        store_key = own.content_key
        if model.kind == "view":
            read = {name: self._relations[name] for name in (*model.parents, *model.outside)}
            store_key = view_key(own.definition_key, read)
        return PlannedRelation(
            model.name,
            store_key,
            own.content_key,
            self._name(model, store_key),
            model.kind,
            model.parents,
        )

    def _name(self, model: ModelNode, store_key: str) -> str:
        return relation_name(model.name, store_key, self._attempt)

    def _lay_out(
        self, model: ModelNode, view: PlannedRelation, *, is_new: bool
    ) -> tuple[Piece, ...]:
        """The pieces of the model's view; new segments and the view itself are planned if need be."""
        wanted = self._keys[model.name].partition_keys or {}
        layout = lay_out(wanted, self._find_segments(wanted.values()))
        if not is_new:
            return (*layout.pieces, *layout.merge)
        pieces = list(layout.pieces)
        if layout.merge:
            merged = tuple(sorted(name for piece in layout.merge for name in piece.visible))
            rows = sum(piece.rows for piece in layout.merge)
            segment = self._plan_segment(model, {name: wanted[name] for name in merged})
            self._build.append(replace(segment, merged=layout.merge, made_by_dbt=False))
            pieces.append(Piece(segment.relation_name, merged, rows=rows))
        if layout.missing or not pieces:
            segment = self._plan_segment(model, {name: wanted[name] for name in layout.missing})
            self._build.append(segment)
            pieces.append(Piece(segment.relation_name, layout.missing))
        own = model.name if layout.missing or layout.merge or not wanted else None
        self._build.append(
            replace(
                view,
                kind="view",
                parents=(*model.parents, own) if own else model.parents,
                pieces=tuple(pieces),
                made_by_dbt=False,
            )
        )
        return tuple(pieces)

    def _plan_segment(self, model: ModelNode, partitions: Mapping[str, str]) -> PlannedRelation:
        definition = self._keys[model.name].definition_key
        key = digest({"segment": definition, "partitions": dict(partitions)})
        return PlannedRelation(
            model.name,
            key,
            self._keys[model.name].content_key,
            self._name(model, key),
            "table",
            model.parents,
            partitions=partitions,
        )

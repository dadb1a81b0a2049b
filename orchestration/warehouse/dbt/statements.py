"""What dbt runs for each model, as constant SQL: the text its key was computed from, and its inputs.

Nothing is rendered again while dbt builds, so what is stored is what the key says.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from orchestration.warehouse.dbt.graph import (
    PLACEHOLDER_DATABASE,
    PLACEHOLDER_MODELS,
    PLACEHOLDER_SOURCES,
    ModelNode,
    ProjectGraph,
)
from orchestration.warehouse.dbt.keys import ModelKeys
from orchestration.warehouse.dbt.plan import BuildPlan, PlannedRelation
from orchestration.warehouse.names import staging_table
from orchestration.warehouse.segments.places import IN_STORE, Places
from orchestration.warehouse.segments.texts import (
    LIVE_SCHEMA,
    resolve,
    segment_views,
    some_artifacts,
    some_partitions,
    some_windows,
    temporary_view,
    without_partitions,
    written,
)


@dataclass(frozen=True)
class Sources:
    """What a manifest holds, for reading it by window.

    `artifacts` maps resource → window → artifact id, for resources that are loaded by window;
    `columns` maps resource → the columns of its view in schema live.
    """

    artifacts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)


class Reads(Protocol):
    """What a piece of compiled SQL reads: models, resources, and models of other pipelines."""

    @property
    def parents(self) -> tuple[str, ...]: ...

    @property
    def resources(self) -> tuple[str, ...]: ...

    @property
    def outside(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Statements:
    """`before` and `after` run in the transaction that builds the relation from `code`."""

    code: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Writer:
    """Writes the SQL of one plan; `places` says where its relations stand."""

    graph: ProjectGraph
    keys: Mapping[str, ModelKeys]
    plan: BuildPlan
    sources: Sources = field(default_factory=Sources)
    places: Places = IN_STORE

    def build(self, planned: PlannedRelation) -> Statements:
        """What dbt has to run for this relation."""
        model = self.graph.model(planned.model)
        if planned.partitions is None:
            return Statements(self.whole(model.compiled_code, model))
        before, code = self.restricted(model, planned.partitions, planned.relation_name)
        return Statements(code, before, self._views_of(planned.model))

    def views_without_build(self) -> list[str]:
        """Statements for the views over segments of which dbt builds none."""
        built = set(self.plan.new_partitions)
        return [
            text
            for planned in self.plan.build
            if planned.pieces is not None and planned.model not in built
            for text in self._views(planned)
        ]

    def restricted(
        self, model: ModelNode, partitions: Collection[str], salt: str
    ) -> tuple[tuple[str, ...], str]:
        """(temporary views, query) that make these partitions and can read no others.

        `salt` keeps the views of one session apart.
        """
        read = self.keys[model.name].windows
        windows = {window for name in partitions for window in read.get(name, (name,))}
        inputs = Inputs(self, windows, partial(_view_name, salt), partial(written, "pg_temp"))
        code = inputs.code(model)
        if model.lookback:
            code = without_partitions(code, sorted(windows - set(partitions)))
        return tuple(temporary_view(*found) for found in inputs.definitions), code

    def _views_of(self, model: str) -> tuple[str, ...]:
        return tuple(
            text
            for planned in self.plan.build
            if planned.model == model and planned.pieces is not None
            for text in self._views(planned)
        )

    def _views(self, planned: PlannedRelation) -> tuple[str, ...]:
        columns = self.graph.model(planned.model).contract_columns
        return segment_views(planned.relation_name, columns, planned.pieces or (), self.places)

    def whole(self, code: str, reads: Reads) -> str:
        """The code over all of what it reads."""
        found = {_source(name): self.live(name) for name in reads.resources}
        return resolve(
            code,
            found | {_model(name): self.stored(name) for name in (*reads.parents, *reads.outside)},
        )

    def live(self, resource: str) -> str:
        return written(LIVE_SCHEMA, staging_table(resource))

    def stored(self, model: str) -> str:
        outside = self.graph.outside.get(model)
        return self.places.written(outside.relation_name if outside else self.plan.relations[model])


class Inputs:
    """The inputs of one query, restricted to some windows; each is defined once, parents first.

    `name_of` gives an input a name, `refer_to` says how that is written in SQL. Inputs in `entire`
    are read as a whole all the same, the queries in `instead` take the place of a model's rows.
    """

    def __init__(
        self,
        writer: Writer,
        windows: Collection[str],
        name_of: Callable[[str], str],
        refer_to: Callable[[str], str],
        *,
        entire: Collection[str] = (),
        instead: Mapping[str, str] | None = None,
    ) -> None:
        self._writer, self._windows, self._entire = writer, sorted(windows), entire
        self._name_of, self._refer_to, self._instead = name_of, refer_to, instead or {}
        self._made: set[str] = set()
        self.definitions: list[tuple[str, str]] = []

    def code(self, model: ModelNode) -> str:
        return self.resolved(model.compiled_code, model)

    def resolved(self, code: str, reads: Reads) -> str:
        """The code over these inputs."""
        relations = {_source(name): self._resource(name) for name in reads.resources}
        relations |= {_model(name): self._parent(name) for name in reads.parents}
        relations |= {_model(name): self._writer.stored(name) for name in reads.outside}
        return resolve(code, relations)

    def _resource(self, resource: str) -> str:
        held = self._writer.sources.artifacts.get(resource)
        if held is None or resource in self._entire:
            return self._writer.live(resource)
        wanted = {window: held[window] for window in self._windows if window in held}
        columns = self._writer.sources.columns[resource]
        text = (
            some_artifacts(resource, columns, wanted.values())
            if self._writer.places.reads_staging
            else some_windows(resource, columns, wanted)
        )
        return self._make(resource, text)

    def _parent(self, name: str) -> str:
        parent = self._writer.graph.model(name)
        if name in self._instead:
            return self._make(name, self._instead[name])
        if name in self._entire or self._writer.keys[name].partition_keys is None:
            return self._writer.stored(name)
        if not parent.is_partitioned:
            return self._make(name, self.code(parent))
        pieces = self._writer.plan.pieces[name]
        if not pieces:
            # Its view shows nothing, but knows the types.
            return self._writer.stored(name)
        columns, places = parent.contract_columns, self._writer.places
        return self._make(name, some_partitions(columns, pieces, self._windows, places))

    def _make(self, name: str, code: str) -> str:
        if name not in self._made:
            self.definitions.append((self._name_of(name), code))
            self._made.add(name)
        return self._refer_to(self._name_of(name))


def _view_name(salt: str, name: str) -> str:
    token = hashlib.sha256(f"{salt}:{name}".encode()).hexdigest()[:12]
    return f"{name.replace('.', '__')[:40]}__{token}"


def _model(name: str) -> str:
    return f'"{PLACEHOLDER_DATABASE}"."{PLACEHOLDER_MODELS}"."{name}"'


def _source(resource: str) -> str:
    return f'"{PLACEHOLDER_DATABASE}"."{PLACEHOLDER_SOURCES}"."{staging_table(resource)}"'

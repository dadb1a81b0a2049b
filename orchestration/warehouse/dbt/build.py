"""Building what has no relation yet: first a plan, then one dbt run of exactly those models.

A failed build leaves relations that nobody refers to and that a sweep removes; what is already in
the store is never written.
"""

import hashlib
import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from orchestration.errors import ConfigurationError, InternalError, SluiceError, TransformFailure
from orchestration.warehouse.dbt.canonical import canonical_sql
from orchestration.warehouse.dbt.failures import failure_of
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph, RelationKind
from orchestration.warehouse.dbt.keys import ModelKeys, view_key
from orchestration.warehouse.dbt.patching import placeholder_names, with_relations
from orchestration.warehouse.dbt.session import DbtSession, Invocation, invoke

Lookup = Callable[[Collection[str]], Mapping[str, str]]
Again = Callable[[int, Sequence[SluiceError]], bool]


def _never(_tries: int, _failures: Sequence[SluiceError]) -> bool:
    return False


@dataclass(frozen=True)
class PlannedRelation:
    """A model's relation in schema store, to be built or there already.

    `store_key` names the relation's content in the store: for a table the content key, for a view
    what it says and over which relations. `parents` are models.
    """

    model: str
    store_key: str
    content_key: str
    relation_name: str
    kind: RelationKind
    parents: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildPlan:
    """What to build, parents first, and what to reuse."""

    build: tuple[PlannedRelation, ...]
    reuse: tuple[PlannedRelation, ...]

    @cached_property
    def relations(self) -> Mapping[str, str]:
        """model → relation, of everything."""
        return {planned.model: planned.relation_name for planned in (*self.reuse, *self.build)}


@dataclass(frozen=True)
class BuildResult:
    """What was built, and how long dbt took for each model, in seconds."""

    built: tuple[PlannedRelation, ...]
    duration_s: float
    model_seconds: Mapping[str, float]


def plan_build(
    graph: ProjectGraph, keys: Mapping[str, ModelKeys], attempt: str, lookup: Lookup
) -> BuildPlan:
    """Decides for each model whether its relation exists. Reads through `lookup`, changes nothing.

    `lookup` maps store keys to adopted relations; `attempt` is a token that no other attempt has,
    so that two attempts never build under one name.
    """
    tables = [keys[model.name].content_key for model in graph.models if model.kind == "table"]
    adopted = dict(lookup(tables)) if tables else {}
    build: list[PlannedRelation] = []
    reuse: list[PlannedRelation] = []
    relations = {name: model.relation_name for name, model in graph.outside.items()}
    fresh: set[str] = set()
    for model in graph.models:
        content_key = keys[model.name].content_key
        store_key = content_key
        if model.kind == "view":
            read = {name: relations[name] for name in (*model.parents, *model.outside)}
            store_key = view_key(keys[model.name].definition_key, read)
            if not fresh & set(model.parents):
                adopted |= lookup([store_key])
        found = adopted.get(store_key)
        name = found or relation_name(model.name, store_key, attempt)
        planned = PlannedRelation(
            model.name, store_key, content_key, name, model.kind, model.parents
        )
        relations[model.name] = name
        if found:
            reuse.append(planned)
        else:
            fresh.add(model.name)
            build.append(planned)
    return BuildPlan(tuple(build), tuple(reuse))


def relation_name(model: str, store_key: str, attempt: str) -> str:
    """`<model>__<12 hex>`; with dbt's own suffix for work in progress it still fits 63 bytes."""
    return f"{model}__{hashlib.sha256(f'{store_key}:{attempt}'.encode()).hexdigest()[:12]}"


def run_build(
    session: DbtSession, graph: ProjectGraph, plan: BuildPlan, *, again: Again = _never
) -> BuildResult:
    """Builds what the plan says under its names, as the session's role.

    When all that went wrong may pass by itself, `again(tries, failures)` is asked, and if it says
    so the models that are not built yet are tried once more; the others stay as they are. Raises
    `TransformFailure` when a model cannot be built, `DestinationFailure` when the warehouse is
    away, `ConfigurationError` when the project itself is at fault. Independent models are finished
    all the same, but nothing is adopted here.
    """
    started = time.monotonic()
    results: dict[str, Any] = {}
    pending = {planned.model: graph.model(planned.model) for planned in plan.build}
    for tries in itertools.count(1):
        if not pending:
            break
        failures = _build_once(session, graph, plan, pending, results)
        pending = {name: model for name, model in pending.items() if name not in results}
        if failures:
            error = _most_telling(failures)
            if not error.transient or not again(tries, failures):
                raise error
    models = {planned.model: graph.model(planned.model) for planned in plan.build}
    _check_unchanged(graph, models, results, plan)
    seconds = {name: results[name].execution_time for name in models}
    return BuildResult(plan.build, time.monotonic() - started, seconds)


def _build_once(
    session: DbtSession,
    graph: ProjectGraph,
    plan: BuildPlan,
    models: Mapping[str, ModelNode],
    results: dict[str, Any],
) -> list[SluiceError]:
    """One run of dbt. Adds the results of the models that were built; returns what went wrong."""
    names = [".".join(graph.manifest.nodes[model.unique_id].fqn) for model in models.values()]
    try:
        done = invoke(
            session,
            [
                *("build", "--select", *names, "--threads", str(session.threads)),
                *("--resource-type", "model", "--resource-type", "seed"),
            ],
            with_relations(graph.manifest, plan.relations, graph.outside),
        )
        done.raise_if_broken("dbt could not run the models")
    except SluiceError as error:
        return [error]
    found = {result.node.unique_id: result for result in done.result.results}
    failures: list[SluiceError] = []
    skipped = []
    for name, model in models.items():
        result = found.get(model.unique_id)
        if result is None:
            raise InternalError(f"dbt did not run {model.title}; run again with fewer models")
        match str(result.status):
            case "success":
                results[name] = result
            case "skipped":
                skipped.append(model)
            case _:
                failures.append(_failure(model, result, done))
    if skipped and not failures:
        raise InternalError(f"dbt skipped {skipped[0].title} without a reason; run again")
    return failures


def _failure(model: ModelNode, result: Any, done: Invocation) -> SluiceError:
    trouble = done.troubles.get(model.unique_id)
    if trouble is not None:
        return failure_of(trouble, model.title)
    # Without a database error it is dbt's own: a contract that does not hold, a macro that raises.
    lines = [line.strip() for line in str(result.message).strip().splitlines() if line.strip()]
    text = "\n".join(lines)[:2000]
    code = "contract_broken" if "contract" in text.lower() else "model_failed"
    return TransformFailure(f"{model.title}: {text}\ncorrect the model and run again", code=code)


def _most_telling(failures: list[SluiceError]) -> SluiceError:
    # A permanent failure wins: trying again cannot help then, whatever else went wrong.
    ranked = sorted(failures, key=lambda failure: failure.transient)
    first = ranked[0]
    if len(ranked) > 1:
        others = "\n".join(failure.message for failure in ranked[1:5])
        message = f"{first.message}\n{len(ranked) - 1} more model(s) failed:\n{others}"
        if isinstance(first, ConfigurationError):
            return ConfigurationError(message, code=first.code)
        return type(first)(message, code=first.code, transient=first.transient)
    return first


def _check_unchanged(
    graph: ProjectGraph,
    models: Mapping[str, ModelNode],
    results: Mapping[str, Any],
    plan: BuildPlan,
) -> None:
    """What ran must be what the key was computed from, else the key would be a lie."""
    written = placeholder_names(graph.manifest, plan.relations, graph.outside)
    for name, model in models.items():
        if model.materialized == "seed" or model.depends_on_moment:
            continue
        code = str(results[name].node.compiled_code)
        for relation, placeholder in written.items():
            code = code.replace(relation, placeholder)
        if canonical_sql(code) != canonical_sql(model.compiled_code):
            raise ConfigurationError(
                f"{model.title}: dbt ran other SQL than its key was computed from, so it depends "
                "on the moment, the connection or the relation's own name; make it constant, or "
                "declare it in the config: meta: {depends_on_moment: [compilation]}",
                code="model_not_constant",
            )

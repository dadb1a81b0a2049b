"""Building what has no relation yet: one dbt run of exactly the models that the plan names.

A failed build leaves relations that nobody refers to and that a sweep removes; what is already in
the store is never written.
"""

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestration.errors import ConfigurationError, InternalError, SluiceError, TransformFailure
from orchestration.warehouse.dbt.failures import failure_of
from orchestration.warehouse.dbt.graph import ModelNode
from orchestration.warehouse.dbt.patching import with_builds
from orchestration.warehouse.dbt.plan import PlannedRelation
from orchestration.warehouse.dbt.session import DbtSession, Invocation, invoke
from orchestration.warehouse.dbt.statements import Writer

Again = Callable[[int, Sequence[SluiceError]], bool]


def _never(_tries: int, _failures: Sequence[SluiceError]) -> bool:
    return False


@dataclass(frozen=True)
class BuildResult:
    """What was built, and how long dbt took for each model, in seconds."""

    built: tuple[PlannedRelation, ...]
    duration_s: float
    model_seconds: Mapping[str, float]


def run_build(session: DbtSession, writer: Writer, *, again: Again = _never) -> BuildResult:
    """Builds what the writer's plan says under its names, as the session's role.

    When all that went wrong may pass by itself, `again(tries, failures)` is asked, and if it says
    so the models that are not built yet are tried once more; the others stay as they are. Raises
    `TransformFailure` when a model cannot be built, `DestinationFailure` when the warehouse is
    away, `ConfigurationError` when the project itself is at fault. Independent models are finished
    all the same, but nothing is adopted here.
    """
    started = time.monotonic()
    results: dict[str, Any] = {}
    plan = writer.plan.by_dbt
    pending = {planned.model: writer.graph.model(planned.model) for planned in plan}
    for tries in itertools.count(1):
        if not pending:
            break
        failures = _build_once(session, writer, pending, results)
        pending = {name: model for name, model in pending.items() if name not in results}
        if failures:
            error = _most_telling(failures)
            if not error.transient or not again(tries, failures):
                raise error
    seconds = {name: result.execution_time for name, result in results.items()}
    return BuildResult(plan, time.monotonic() - started, seconds)


def _build_once(
    session: DbtSession,
    writer: Writer,
    models: Mapping[str, ModelNode],
    results: dict[str, Any],
) -> list[SluiceError]:
    """One run of dbt. Adds the results of the models that were built; returns what went wrong."""
    graph = writer.graph
    names = [".".join(graph.manifest.nodes[model.unique_id].fqn) for model in models.values()]
    try:
        done = invoke(
            session,
            [
                *("build", "--select", *names, "--threads", str(session.threads)),
                *("--resource-type", "model", "--resource-type", "seed"),
            ],
            with_builds(writer),
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

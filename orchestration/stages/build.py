"""Building what one version lacks: planned, merged, built by dbt, checked, and adopted at once.

Relations are built under names of this attempt alone, so that a killed attempt leaves nothing that
anybody reads.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import psycopg

from orchestration.errors import SluiceError, TransformFailure
from orchestration.failures.backoff import pause_s
from orchestration.faultpoints import FaultPoint, reach
from orchestration.logs import get_logger
from orchestration.model import StageName
from orchestration.stages.base import Claim, StageContext
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys
from orchestration.warehouse.dbt.plan import BuildPlan
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.planning import plan_now, sources_of
from orchestration.warehouse.rebuilds import Rebuild, explain_rebuilds
from orchestration.warehouse.segments.arrange import arrange_segments
from orchestration.warehouse.segments.independence import check_independence
from orchestration.warehouse.store import adopt_relations, register_loading

_RACES = 3


@dataclass(frozen=True)
class Made:
    """The plan that was made first, and the relations that it came to."""

    plan: BuildPlan
    relations: Mapping[str, str]
    rebuilds: Sequence[Rebuild]


def build_models(
    context: StageContext,
    connection: psycopg.Connection,
    session: DbtSession,
    graph: ProjectGraph,
    keys: dict[str, ModelKeys],
    claim: Claim,
) -> Made:
    """Builds what the store lacks; a key that another builder finished first is reused."""
    from orchestration.warehouse.dbt.build import run_build

    lease: Lease = claim.lease
    manifest: Manifest = context.memory["manifest"]
    sources = sources_of(connection, graph, manifest)
    made: Made | None = None
    for race in range(_RACES):
        attempt = f"{context.run.run_id}:{lease.fence}:{claim.attempt}:{race}"
        plan = plan_now(connection, graph, keys, attempt)
        if made is None:
            rebuilds = explain_rebuilds(
                connection, context.pipeline.name, graph, keys, plan, manifest
            )
            made = Made(plan, plan.relations, rebuilds)
            _tell_rebuilds(context, rebuilds)
        if not plan.build:
            return replace(made, relations=plan.relations)
        context.progress.update(StageName.TRANSFORM, _summary(plan))
        writer = Writer(graph, keys, plan, sources)
        register_loading(connection, plan.build, run_id=context.run.run_id, lease=lease)
        reach(FaultPoint.TRANSFORM_AFTER_REGISTER)
        arrange_segments(connection, writer)
        reach(FaultPoint.TRANSFORM_AFTER_MERGE)
        run_build(session, writer, again=partial(_try_again, context))
        reach(FaultPoint.TRANSFORM_AFTER_BUILD)
        check_independence(connection, writer, lease)
        context.check_leases()
        adoption = adopt_relations(connection, plan.build, lease)
        reach(FaultPoint.TRANSFORM_AFTER_ADOPTION)
        if not adoption.orphaned:
            return replace(made, relations={**plan.relations, **adoption.adopted})
    raise TransformFailure(
        "other builders finished the same models first, several times in a row; run the same "
        "command again",
        code="build_races",
        transient=True,
    )


def _summary(plan: BuildPlan) -> str:
    models = len({item.model for item in plan.build})
    partitions = sum(len(new) for new in plan.new_partitions.values())
    some = f" ({partitions} partitions)" if partitions else ""
    return f"building {models} models{some}, {len(plan.reuse)} unchanged"


def _tell_rebuilds(context: StageContext, rebuilds: Sequence[Rebuild]) -> None:
    """Says what costs much more than a night: a new airline builds every day again."""
    for rebuild in rebuilds:
        if rebuild.is_large:
            context.progress.update(StageName.TRANSFORM, str(rebuild))
            get_logger().warning("partitions built again", **rebuild.as_json())


def _try_again(context: StageContext, tries: int, failures: Sequence[SluiceError]) -> bool:
    """Waits before the models that failed are built again; false when they should not be."""
    if tries >= context.pipeline.stages.transform.max_attempts:
        return False
    context.check_leases()
    pause = pause_s(tries, failures, remaining_s=context.budget.remaining_s)
    if pause is None:
        return False
    context.progress.update(StageName.TRANSFORM, f"trying again: {failures[0].code}")
    time.sleep(pause)
    context.check_leases()
    return not context.budget.is_low

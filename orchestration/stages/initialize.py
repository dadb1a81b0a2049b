"""Initialize: a run's plan is complete and its sources are configured before anything is fetched."""

import os
from collections.abc import Iterator, Sequence

from ingestion.fetch import check_source
from ingestion.sources import get_source
from orchestration.errors import ConfigurationError
from orchestration.identity import digest
from orchestration.model import Run, StageName
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Conclusion,
    StageContext,
    Unit,
    UnitDone,
    UnitResult,
)


class InitializeStage:
    """One unit: the run's plan. Always looked at again, since the environment may have changed."""

    name = StageName.INITIALIZE

    def units(self, context: StageContext) -> list[Unit]:
        return [
            Unit(
                pipeline=context.pipeline.name,
                stage=self.name,
                source_partition=digest(["plan", context.run.run_id]),
                lease_name=context.run_lease.name,
                input_ref=context.run.run_id,
            )
        ]

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        return set(checkpoints) if not _missing(context) else set()

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        wanted = context.pipeline.stages.initialize.acceptance.min_partitions
        if is_exact(context.run):
            wanted = 1
        if len(context.partitions) < wanted:
            raise ConfigurationError(
                f"the plan names {len(context.partitions)} partitions and the pipeline wants at least "
                f"{wanted}; ask for more days with --partitions",
                code="too_few_partitions",
            )
        if missing := _missing(context):
            raise ConfigurationError(
                f"a source is not configured: set {' and '.join(missing)} in the environment or in "
                ".env, as .env.example explains, then run the same command again",
                code="source_not_configured",
            )
        plan = [str(item.partition) for item in context.partitions]
        for claim in claims:
            yield UnitDone(
                claim.unit, output_ref=f"plan/{digest(plan)[:16]}", checksum=digest(plan)
            )

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        [checkpoint] = finished.values()
        return Conclusion(checkpoint.output_ref or "")


def is_exact(run: Run) -> bool:
    """Whether the run is about revisions that a reviewer asked for, so that no source is asked."""
    return "revisions" in run.request


def _missing(context: StageContext) -> list[str]:
    if is_exact(context.run):
        return []
    sources = {name.partition(".")[0] for name in context.pipeline.resource_names}
    return [
        problem
        for name in sorted(sources)
        for problem in check_source(get_source(name), os.environ)
    ]

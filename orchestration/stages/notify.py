"""Notify: owners are told what became of the run. A message is a row first; delivery comes after.

The only channel of this version is the log. A message that cannot be delivered stays in the outbox
and never changes the outcome of a run.
"""

from collections.abc import Iterator, Sequence

from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import digest
from orchestration.logs import get_logger
from orchestration.model import StageName
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Conclusion,
    StageContext,
    Unit,
    UnitDone,
    UnitResult,
)
from orchestration.warehouse.fence import assert_fence


class NotifyStage:
    """One unit: the messages of this run that nobody has delivered yet."""

    name = StageName.NOTIFY

    def units(self, context: StageContext) -> list[Unit]:
        rows = context.connection.execute(
            "select kind from ops.outbox where run_id = %s order by kind",
            [context.run.run_id],
        ).fetchall()
        return [
            Unit(
                pipeline=context.pipeline.name,
                stage=self.name,
                source_partition=digest([context.run.run_id, [row[0] for row in rows]]),
                lease_name=context.run_lease.name,
                input_ref=context.run.run_id,
            )
        ]

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        return set(checkpoints)

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        rows = context.connection.execute(
            "select outbox_id, kind, owner, dedup_key, payload from ops.outbox "
            "where run_id = %s and delivered_at is null order by outbox_id",
            [context.run.run_id],
        ).fetchall()
        for outbox_id, kind, owner, dedup_key, payload in rows:
            get_logger().info(
                "notification", kind=kind, owner=owner, key=dedup_key, payload=payload
            )
            reach(FaultPoint.NOTIFY_BEFORE_DELIVERY)
            with context.connection.transaction():
                assert_fence(context.connection, claims[0].lease)
                context.connection.execute(
                    "update ops.outbox set delivered_at = clock_timestamp() "
                    "where outbox_id = %s and delivered_at is null",
                    [outbox_id],
                )
        reach(FaultPoint.NOTIFY_AFTER_DELIVERY)
        for claim in claims:
            yield UnitDone(claim.unit, output_ref=f"delivered/{len(rows)}")

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        [checkpoint] = finished.values()
        return Conclusion(checkpoint.output_ref or "")

"""Notify: owners are told what became of the run. A message is a row first; delivery comes after.

A message that cannot be delivered stays in the outbox and never changes the outcome of a run; whoever
delivers next, for whatever run, delivers it too.
"""

from collections.abc import Iterator, Sequence

import psycopg
from psycopg.rows import class_row

from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import digest
from orchestration.logs import get_logger
from orchestration.model import StageName
from orchestration.notifications.delivery import NotDelivered, deliver
from orchestration.notifications.message import Message
from orchestration.notifications.routes import Alerts, read_alerts
from orchestration.sql.queries import query
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Conclusion,
    StageContext,
    Unit,
    UnitDone,
    UnitResult,
)
from orchestration.warehouse.fence import Lease, assert_fence, outbox_lease


class NotifyStage:
    """One unit: the messages of this run, and with them those that no living worker has in hand."""

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
                lease_name=outbox_lease(context.pipeline.name),
                input_ref=context.run.run_id,
            )
        ]

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        """What was told is not told again; it is only done anew when something waits."""
        waiting = waiting_messages(
            context.connection, context.pipeline.name, run_id=context.run.run_id
        )
        return set() if waiting else set(checkpoints)

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        [claim] = claims
        delivered = deliver_waiting(
            context.connection,
            context.pipeline.name,
            claim.lease,
            read_alerts(context.settings),
            run_id=context.run.run_id,
        )
        yield UnitDone(claim.unit, output_ref=f"delivered/{delivered}")

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        [checkpoint] = finished.values()
        return Conclusion(checkpoint.output_ref or "")


def waiting_messages(
    connection: psycopg.Connection, pipeline: str, *, run_id: str | None
) -> list[Message]:
    """What nobody has delivered, the oldest first.

    Of the run `run_id`, and of all that have ended, were given up by their worker, or were no run.
    """
    with connection.cursor(row_factory=class_row(Message)) as cursor:
        return cursor.execute(
            query("outbox_waiting"), {"pipeline": pipeline, "run_id": run_id}
        ).fetchall()


def deliver_waiting(
    connection: psycopg.Connection,
    pipeline: str,
    lease: Lease,
    alerts: Alerts,
    *,
    run_id: str | None = None,
) -> int:
    """Tells the owners and marks each message that was taken; returns how many there were.

    Needs the pipeline's `outbox_lease` and autocommit. Raises `LeaseLost`.
    """
    delivered, out_of_reach = 0, set[str]()
    for message in waiting_messages(connection, pipeline, run_id=run_id):
        # Who could not be reached once would only be waited for again.
        if message.owner in out_of_reach:
            continue
        told = {"kind": message.kind, "owner": message.owner, "key": message.key}
        try:
            deliver(message, alerts)
        except NotDelivered as error:
            get_logger().warning("not delivered", reason=str(error), **told)
            out_of_reach.add(message.owner)
            continue
        get_logger().info("notification", payload=message.payload, **told)
        reach(FaultPoint.NOTIFY_BEFORE_DELIVERY)
        with connection.transaction():
            assert_fence(connection, lease)
            connection.execute(
                "update ops.outbox set delivered_at = clock_timestamp() "
                "where outbox_id = %s and delivered_at is null",
                [message.outbox_id],
            )
        delivered += 1
    reach(FaultPoint.NOTIFY_AFTER_DELIVERY)
    return delivered

"""What an owner is told about a run that did not end well: one row for each end, however often.

What no run will deliver (an operator ended the run, or there was none) is delivered from here.
"""

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from orchestration.errors import SluiceError
from orchestration.failures import classify
from orchestration.logs import get_logger
from orchestration.model import Outcome, StageName
from orchestration.runs.leases import Heartbeat, release, try_acquire
from orchestration.sql.queries import query
from orchestration.stages.notify import deliver_waiting
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, assert_fence, outbox_lease


def failure_of(error: SluiceError, stage: StageName | None) -> dict[str, Any]:
    """The `failure` of a run, as it is stored and printed."""
    return {
        "kind": error.kind,
        "stage": stage,
        "error_code": error.code,
        "transient": error.transient,
        "message": error.message,
    }


def tell_owner(
    connection: psycopg.Connection,
    run_id: str,
    lease: Lease,
    outcome: Outcome,
    failure: dict[str, Any],
) -> None:
    """Writes the message for the owner of the stage, or of the run, as the run's rows name them.

    Inside the caller's transaction, under the run's lease. Raises `LeaseLost`.
    """
    assert_fence(connection, lease)
    connection.execute(
        query("runs_tell_owner"),
        {
            "run_id": run_id,
            "kind": outcome,
            "stage": failure["stage"],
            "dedup_key": f"{outcome}:{run_id}:{failure['stage']}:{failure['error_code']}",
            "payload": Jsonb(failure),
        },
    )


def deliver_left_over(warehouse: Warehouse) -> None:
    """Delivers the messages of every pipeline that no living worker has in hand.

    Raises nothing: what cannot be delivered now stays, and the next run or recovery tries again.
    """
    try:
        with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            rows = connection.execute(
                "select distinct pipeline from ops.outbox where delivered_at is null order by 1"
            ).fetchall()
            for (pipeline,) in rows:
                _deliver_of(warehouse, connection, pipeline)
    except (psycopg.Error, SluiceError) as error:
        failure = classify(error)
        get_logger().warning("nobody was told", error_code=failure.code, message=failure.message)


def _deliver_of(warehouse: Warehouse, connection: psycopg.Connection, pipeline: str) -> None:
    lease = try_acquire(connection, outbox_lease(pipeline))
    if lease is None:
        # Another process is delivering; it does not keep the message from the one after it.
        return
    try:
        with Heartbeat(warehouse) as heartbeat, heartbeat.keep(lease):
            deliver_waiting(connection, pipeline, lease)
    finally:
        release(connection, lease)

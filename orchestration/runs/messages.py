"""What owners are told about how a run ended: one row for each end and owner, however often.

What no run will deliver (an operator ended the run, or there was none) is delivered from here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from orchestration.errors import SluiceError
from orchestration.failures import classify
from orchestration.identity import digest
from orchestration.logs import get_logger
from orchestration.model import Outcome, Run, StageName
from orchestration.notifications.outbox import write_message
from orchestration.notifications.routes import Alerts
from orchestration.pipelines.spec import PipelineSpec
from orchestration.runs.leases import Heartbeat, release, try_acquire
from orchestration.runs.state import get_run
from orchestration.sql.queries import query
from orchestration.sql.rows import rows_of
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
    owner: str | None = None,
) -> None:
    """Writes the message for `owner`, or for that of the stage, or of the run, as the run's rows say.

    Inside the caller's transaction, under the run's lease. Raises `LeaseLost`.
    """
    assert_fence(connection, lease)
    key = f"{outcome}:{run_id}:{failure['stage']}:{failure['error_code']}"
    connection.execute(
        query("runs_tell_owner"),
        {
            "run_id": run_id,
            "kind": outcome,
            "stage": failure["stage"],
            "owner": owner,
            "dedup_key": key if owner is None else f"{key}:{digest(owner)[:8]}",
            "payload": Jsonb(failure | _advice(connection, run_id, outcome, failure)),
        },
    )


def tell_end(
    connection: psycopg.Connection,
    pipeline: PipelineSpec,
    run: Run,
    lease: Lease,
    outcome: Outcome,
    failure: dict[str, Any] | None,
    left_out: Sequence[str],
) -> None:
    """Writes what the end of a run means for people, whom its publication does not tell already.

    Inside the caller's transaction, under the run's lease. Raises `LeaseLost`.
    """
    if failure is not None:
        owners: list[str | None] = [
            *_owners_concerned(connection, pipeline, run.run_id, failure["stage"])
        ]
        for owner in owners or [None]:
            tell_owner(connection, run.run_id, lease, outcome, failure, owner)
    elif outcome is not Outcome.UNCHANGED:
        _tell_published(connection, pipeline, run, lease, outcome, left_out)


def _tell_published(
    connection: psycopg.Connection,
    pipeline: PipelineSpec,
    run: Run,
    lease: Lease,
    outcome: Outcome,
    left_out: Sequence[str],
) -> None:
    """What was left out, kept out, or is well again."""
    assert_fence(connection, lease)

    def tell(kind: str, owner: str, payload: dict[str, Any]) -> None:
        key = f"{run.run_id}:{digest(owner)[:8]}"
        write_message(connection, run, kind, key, owner, payload)

    if outcome is Outcome.DEGRADED:
        advice = _advice(connection, run.run_id, outcome, None)
        for owner, partitions in _by_owner(pipeline, left_out).items():
            tell("degraded", owner, {"partitions": partitions} | advice)
    if rules := rows_of(connection, "outbox_quarantined", [run.run_id]):
        look = f"sluice quarantine list --run {run.run_id}"
        tell("quarantined", pipeline.reviewer.email, {"rules": rules, "next": look})
    values = {"pipeline": run.pipeline, "run_id": run.run_id}
    for owner, after in connection.execute(query("outbox_open_failures"), values).fetchall():
        tell("recovered", owner, {"after": after})


def _owners_concerned(
    connection: psycopg.Connection, pipeline: PipelineSpec, run_id: str, stage: StageName | None
) -> list[str]:
    """Owners of the resources that stopped a run; none when it was not stopped by resources."""
    if stage not in {StageName.EXTRACT, StageName.VALIDATE}:
        return []
    found = connection.execute(query("outbox_in_trouble"), [run_id]).fetchall()
    return sorted({pipeline.owner_of(stage, resource).email for (resource,) in found})


def _by_owner(pipeline: PipelineSpec, partitions: Sequence[str]) -> dict[str, list[str]]:
    owners: dict[str, list[str]] = {}
    for partition in sorted(partitions):
        resource = partition.partition("/")[0]
        owner = pipeline.owner_of(StageName.VALIDATE, resource)
        owners.setdefault(owner.email, []).append(partition)
    return owners


def _advice(
    connection: psycopg.Connection, run_id: str, outcome: Outcome, failure: dict[str, Any] | None
) -> dict[str, Any]:
    """What to type once the run has ended like this."""
    # It reads recoveries, which write messages.
    from orchestration.runs.diagnosis import Standing, advise

    run = replace(get_run(connection, run_id), outcome=outcome, failure=failure)
    advice = advise(run, Standing.FAILED if failure else Standing.FINISHED, None)
    return {"next": advice.next, "look": advice.look}


def deliver_left_over(warehouse: Warehouse, alerts: Alerts) -> None:
    """Delivers the messages of every pipeline that no living worker has in hand.

    Raises nothing: what cannot be delivered now stays, and the next run or recovery tries again.
    """
    try:
        with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            rows = connection.execute(
                "select distinct pipeline from ops.outbox where delivered_at is null order by 1"
            ).fetchall()
            for (pipeline,) in rows:
                _deliver_of(warehouse, connection, pipeline, alerts)
    except (psycopg.Error, SluiceError) as error:
        failure = classify(error)
        get_logger().warning("nobody was told", error_code=failure.code, message=failure.message)


def _deliver_of(
    warehouse: Warehouse, connection: psycopg.Connection, pipeline: str, alerts: Alerts
) -> None:
    lease = try_acquire(connection, outbox_lease(pipeline))
    if lease is None:
        # Another process is delivering; it does not keep the message from the one after it.
        return
    try:
        with Heartbeat(warehouse) as heartbeat, heartbeat.keep(lease):
            deliver_waiting(connection, pipeline, lease, alerts)
    finally:
        release(connection, lease)

"""Reading and writing a run's own rows: its status, its partitions and how each stage went."""

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from ingestion.partitions import Partition
from orchestration.errors import ConfigurationError
from orchestration.identity import RunId
from orchestration.model import (
    Cause,
    Outcome,
    PartitionState,
    Run,
    RunPartition,
    StageName,
    StageStatus,
    TriggerKind,
    cause_of,
)
from orchestration.warehouse.fence import Lease, assert_fence

_RUN_COLUMNS = (
    "run_id, pipeline, trigger_kind, trigger_key, code_id, code_commit, code_dirty, publish, as_of, "
    "correlation_id, workflow_id, status, outcome, version_id, request, failure"
)


def get_run(connection: psycopg.Connection, run_id: str) -> Run:
    """The run with exactly this id. Raises `ConfigurationError` when there is none."""
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(f"select {_RUN_COLUMNS} from ops.runs where run_id = %s", [run_id])  # noqa: S608
        row = cursor.fetchone()
    if row is None:
        raise ConfigurationError(
            f"there is no run {run_id}; see what there is with: sluice runs list",
            code="unknown_run",
        )
    return _as_run(row)


def resolve_run(connection: psycopg.Connection, prefix: str | None) -> Run:
    """The run whose id begins with `prefix`, or the newest one for None.

    Raises `ConfigurationError` when none fits or several do.
    """
    if prefix is None:
        rows = connection.execute(
            "select run_id from ops.runs order by accepted_at desc limit 1"
        ).fetchall()
    else:
        rows = connection.execute(
            "select run_id from ops.runs where starts_with(run_id, %s) "
            "or starts_with(run_id, 'r_' || %s) order by accepted_at desc limit 5",
            [prefix, prefix],
        ).fetchall()
    if not rows:
        what = f"no run begins with {prefix!r}" if prefix else "there is no run yet"
        raise ConfigurationError(f"{what}; see: sluice runs list", code="unknown_run")
    if len(rows) > 1:
        names = ", ".join(row[0] for row in rows)
        raise ConfigurationError(
            f"{prefix!r} fits several runs ({names}); give more of the id", code="ambiguous_run"
        )
    return get_run(connection, rows[0][0])


def _as_run(row: dict[str, Any]) -> Run:
    outcome = row.pop("outcome")
    return Run(
        **{**row, "run_id": RunId(row["run_id"]), "trigger_kind": TriggerKind(row["trigger_kind"])},
        outcome=Outcome(outcome) if outcome else None,
    )


def start_run(connection: psycopg.Connection, run_id: RunId, lease: Lease) -> None:
    """accepted | failed | cancelled → running. Needs the run's lease."""
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "update ops.runs set status = 'running', outcome = null, failure = null, cause = null, "
            "started_at = coalesce(started_at, clock_timestamp()), finished_at = null "
            "where run_id = %s",
            [run_id],
        )


def finish_run(
    connection: psycopg.Connection,
    run_id: RunId,
    lease: Lease,
    outcome: Outcome,
    *,
    failure: dict[str, Any] | None,
    version_id: str | None,
) -> None:
    """running → finished | failed | cancelled, inside the caller's transaction, under its lease."""
    assert_fence(connection, lease)
    status, cause = "finished", None
    if outcome is Outcome.FAILED and failure is not None:
        cause = cause_of(failure["error_code"], transient=failure["transient"])
        status = "cancelled" if cause is Cause.CANCELLED else "failed"
    connection.execute(
        "update ops.runs set status = %s, outcome = %s, failure = %s, cause = %s, recoveries = 0, "
        "version_id = coalesce(%s, version_id), finished_at = clock_timestamp() where run_id = %s",
        [status, outcome, Jsonb(failure) if failure else None, cause, version_id, run_id],
    )


def read_partitions(connection: psycopg.Connection, run_id: str) -> list[RunPartition]:
    """The run's partitions, by resource and window."""
    rows = connection.execute(
        "select resource, window_name, revision, state, artifact_id from ops.run_partitions "
        "where run_id = %s order by resource, window_name",
        [run_id],
    ).fetchall()
    return [
        RunPartition(Partition(resource, window, revision), PartitionState(state), artifact)
        for resource, window, revision, state, artifact in rows
    ]


def mark_partitions(
    connection: psycopg.Connection,
    run_id: str,
    lease: Lease,
    marks: Sequence[tuple[Partition, PartitionState, str | None]],
) -> None:
    """Writes down what became of (partition, state, artifact id); None keeps the artifact known.

    One transaction. Needs the run's lease.
    """
    with connection.transaction(), connection.cursor() as cursor:
        assert_fence(connection, lease)
        cursor.executemany(
            "update ops.run_partitions set state = %s, artifact_id = coalesce(%s, artifact_id) "
            "where run_id = %s and resource = %s and window_name = %s",
            [
                (state, artifact_id, run_id, partition.resource, partition.window)
                for partition, state, artifact_id in marks
            ],
        )


def start_stage(
    connection: psycopg.Connection,
    run_id: str,
    stage: StageName,
    position: int,
    lease: Lease,
    *,
    owner: str | None = None,
    goes_on: bool = False,
) -> None:
    """Marks the stage running; `owner` is who is told about it.

    `goes_on`: one that is marked so already began when it was, in another process.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "insert into ops.run_stages as s (run_id, stage, position, status, owner) "
            "values (%s, %s, %s, 'running', %s) on conflict (run_id, stage) do update "
            "set status = 'running', owner = excluded.owner, finished_at = null, started_at = case "
            "when %s and s.status = 'running' then s.started_at else clock_timestamp() end",
            [run_id, stage, position, owner, goes_on],
        )


def finish_stage(
    connection: psycopg.Connection,
    run_id: str,
    stage: StageName,
    lease: Lease,
    status: StageStatus,
    *,
    idempotency_key: str | None = None,
    attempts: int = 0,
    input_ref: str | None = None,
    output_ref: str | None = None,
) -> None:
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "update ops.run_stages set status = %s, idempotency_key = %s, attempts = %s, "
            "input_ref = %s, output_ref = %s, finished_at = clock_timestamp() "
            "where run_id = %s and stage = %s",
            [status, idempotency_key, attempts, input_ref, output_ref, run_id, stage],
        )


def note_stage(
    connection: psycopg.Connection,
    run_id: str,
    stage: StageName,
    position: int,
    lease: Lease,
    status: StageStatus,
    *,
    owner: str | None = None,
    attempts: int = 0,
    input_ref: str | None = None,
    output_ref: str | None = None,
) -> None:
    """Writes down a stage that was found finished, unless whoever finished it has."""
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "insert into ops.run_stages as s (run_id, stage, position, status, owner, attempts, "
            "input_ref, output_ref, finished_at) "
            "values (%s, %s, %s, %s, %s, %s, %s, %s, clock_timestamp()) "
            "on conflict (run_id, stage) do update set status = excluded.status, "
            "attempts = excluded.attempts, input_ref = excluded.input_ref, "
            "output_ref = excluded.output_ref, finished_at = excluded.finished_at "
            "where s.status in ('running', 'failed')",
            [run_id, stage, position, status, owner, attempts, input_ref, output_ref],
        )


def close_stages(connection: psycopg.Connection, run_id: str) -> None:
    """running → failed for the stages that a dead worker left; the caller's transaction is fenced."""
    connection.execute(
        "update ops.run_stages set status = 'failed', finished_at = clock_timestamp() "
        "where run_id = %s and status = 'running'",
        [run_id],
    )


def record_action(
    connection: psycopg.Connection, action: str, target: str, reason: str, actor: str | None
) -> None:
    """Keeps for ever what an operator did; without `actor` it is the session's login role."""
    connection.execute(
        "insert into ops.operator_actions (action, target, reason, actor) "
        "values (%s, %s, %s, coalesce(%s, session_user))",
        [action, target, reason, actor],
    )

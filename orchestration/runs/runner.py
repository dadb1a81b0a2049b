"""Drives one run through the seven stages, from wherever it got to, to an outcome.

Every stage is resumable, so driving a run again is how it recovers: from a killed process, from a
server that went away, on another machine. Only the outcome and its message are written here.
"""

import time
from contextlib import suppress

import psycopg

from orchestration.errors import Cancelled, LeaseLost
from orchestration.failures import classify
from orchestration.failures.backoff import backoff_s
from orchestration.identity import RunId
from orchestration.logs import get_logger
from orchestration.model import Outcome, Run, StageName
from orchestration.runs.cancellation import (
    database_time,
    heed_cancel,
    settle_cancelled,
    take_back_cancel,
)
from orchestration.runs.drive import Drive, Onward
from orchestration.runs.ended import Ended
from orchestration.runs.leases import Heartbeat, acquire, extend, release, try_acquire
from orchestration.runs.stage_runner import reconnect
from orchestration.runs.state import get_run, read_partitions
from orchestration.runs.summary import RunSummary, stored_lines, summarize
from orchestration.runs.worker import Worker
from orchestration.stages.base import Progress, StageContext
from orchestration.warehouse.connections import Role
from orchestration.warehouse.fence import Lease, run_lease

# Far longer than a lease lives: what was killed elsewhere is taken over, and a living run is joined.
RUN_LEASE_WAIT_S = 900.0
# Of a stage's task: whoever has the run now is no task of the same one, or soon gone.
_STAGE_LEASE_WAIT_S = 60.0
# An outage longer than this ends the run as failed; a drive this long starts the count anew.
_OUTAGE_S = 120.0
_GOOD_DRIVE_S = 30.0


def execute_run(worker: Worker, run_id: RunId) -> RunSummary:
    """Brings the run to an outcome; failures are in the summary, not raised.

    Raises `Busy` while another process drives the same run, `LeaseLost` when one took over, and
    `Cancelled` when somebody asked to stop it while this one waited for it.
    """
    return drive_run(worker, run_id, take_run(worker, run_id))


def take_run(worker: Worker, run_id: RunId) -> Lease:
    """The run's lease, for somebody who asks for the run. Raises `Busy` and `Cancelled` as above."""
    with worker.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        asked_at = database_time(connection)
        lease = _wait_for_run(connection, run_id, worker.progress, RUN_LEASE_WAIT_S)
        try:
            take_back_cancel(connection, run_id, lease, asked_at)
        except Cancelled:
            settle_cancelled(connection, run_id, lease)
            release(connection, lease)
            raise
    return lease


def execute_stage(
    worker: Worker, run_id: RunId, stage: StageName, giver: str
) -> RunSummary | StageName:
    """Does the work of one stage under the run's lease, which `giver` holds for whoever comes.

    Returns the stage whose work comes next, or, when the run has ended, what `execute_run` returns.
    A request to stop the run stands. Raises `Busy`, `LeaseLost` and `Cancelled`.
    """
    with worker.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        lease = _wait_for_run(connection, run_id, worker.progress, _STAGE_LEASE_WAIT_S, giver)
        try:
            heed_cancel(connection, run_id, lease)
        except Cancelled:
            release(connection, lease)
            raise
    try:
        return drive_run(worker, run_id, lease, only=stage)
    except Onward as onward:
        return onward.stage


def drive_run(
    worker: Worker, run_id: RunId, lease: Lease, *, only: StageName | None = None
) -> RunSummary:
    """`execute_run`, or a pass for one stage, under the run's lease; gives it back. Raises `Onward`."""
    started = time.monotonic()
    with worker.begin(run_id, lease) as (context, heartbeat):
        # Read under the lease: who had it before may have finished the run meanwhile.
        drive = Drive(context, heartbeat, _ended_well(context.run), only)
        try:
            ended = _until_it_ends(context, drive, heartbeat)
            return summarize(
                context.connection,
                context.run,
                ended,
                drive.lines if only is None else stored_lines(context.connection, run_id),
                repeats_finished=drive.repeats_finished,
                duration_s=time.monotonic() - started,
            )
        finally:
            with suppress(psycopg.Error):
                release(context.connection, context.run_lease)


def _wait_for_run(
    connection: psycopg.Connection,
    run_id: RunId,
    progress: Progress,
    wait_s: float,
    giver: str | None = None,
) -> Lease:
    return acquire(
        connection,
        run_lease(run_id),
        wait_s=wait_s,
        on_wait=lambda _: progress.update("wait", "another process has this run; waiting for it"),
        giver=giver,
    )


def _until_it_ends(context: StageContext, drive: Drive, heartbeat: Heartbeat) -> Ended:
    """Drives again after an outage of the warehouse; what was finished is found finished."""
    trouble = Outage()
    while True:
        trouble.begin_drive()
        try:
            reconnect(context)
            _hold_run(context, drive, heartbeat)
            context.partitions = read_partitions(context.connection, context.run.run_id)
            return drive.go()
        except (psycopg.OperationalError, LeaseLost) as error:
            failure = classify(error)
            get_logger().warning("drive broke off", error_code=failure.code, stage=drive.current)
            if isinstance(error, LeaseLost) and _is_taken(context):
                raise
            if not failure.transient or trouble.lasts_too_long():
                return Ended(Outcome.FAILED, failure=failure, stage=drive.current)
            time.sleep(trouble.wait_s())


class Outage:
    """How long the warehouse has been in the way without a drive of some length in between."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._began = time.monotonic()
        self._tries = 0

    def begin_drive(self) -> None:
        self._began = time.monotonic()

    def lasts_too_long(self) -> bool:
        now = time.monotonic()
        if self._since is None or now - self._began > _GOOD_DRIVE_S:
            self._since, self._tries = now, 0
        self._tries += 1
        return now - self._since > _OUTAGE_S

    def wait_s(self) -> float:
        return min(5.0, backoff_s(min(self._tries, 6), at_least=0.5))


def _hold_run(context: StageContext, drive: Drive, heartbeat: Heartbeat) -> None:
    """Makes sure of the run's lease, under a new fence if it ran out while the server was away.

    Raises `LeaseLost` when another process has the run.
    """
    connection, lease = context.connection, context.run_lease
    if extend(connection, lease):
        return
    renewed = try_acquire(connection, lease.name)
    if renewed is None:
        raise LeaseLost(lease.name)
    context.run_lease = renewed
    heartbeat.take_up(renewed)
    # Somebody else may have brought it to its end and given it back meanwhile.
    context.run = get_run(connection, context.run.run_id)
    drive.repeats_finished = _ended_well(context.run)


def _ended_well(run: Run) -> bool:
    """Whether there is nothing left to do; a held run goes on once somebody has decided."""
    return run.status == "finished" and run.outcome is not Outcome.HELD


def _is_taken(context: StageContext) -> bool:
    """Whether another process has the run; while the server is away nobody knows, so no."""
    try:
        reconnect(context)
        row = context.connection.execute(
            "select 1 from ops.leases where name = %s and fence <> %s "
            "and expires_at > clock_timestamp()",
            [context.run_lease.name, context.run_lease.fence],
        ).fetchone()
    except psycopg.OperationalError:
        return False
    return row is not None

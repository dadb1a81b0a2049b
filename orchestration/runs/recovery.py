"""Runs whose worker died: which they are, and whether one more worker may be put on each.

A run that loses its worker again and again is given up and its owner told. Deciding happens under
the run's lease, so that two recoveries at once do not both take a run on.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import psycopg
from psycopg.rows import class_row

from orchestration.errors import InternalError
from orchestration.identity import RunId
from orchestration.model import Cause, Outcome, Run, StageName
from orchestration.runs.cancellation import settle_cancelled
from orchestration.runs.leases import is_dead_holder, release, try_acquire
from orchestration.runs.messages import failure_of, tell_owner
from orchestration.runs.state import close_stages, finish_run
from orchestration.sql.queries import query
from orchestration.warehouse.fence import Lease, assert_fence, run_lease

MAX_RECOVERIES = 5


class Decision(StrEnum):
    RESUME = "resume"
    GIVE_UP = "give_up"
    CANCEL = "cancel"
    LEAVE = "leave"


@dataclass(frozen=True)
class Interrupted:
    """A run that is not finished and that nobody drives; `holder` had its lease last."""

    run_id: RunId
    pipeline: str
    trigger: str
    status: str
    stage: str | None
    accepted_at: datetime
    recoveries: int
    cancel_requested: bool
    holder: str | None
    lease_is_alive: bool


def find_interrupted(connection: psycopg.Connection) -> list[Interrupted]:
    """Those runs, the oldest first. A dead process of this machine counts as dead at once."""
    with connection.cursor(row_factory=class_row(Interrupted)) as cursor:
        rows = cursor.execute(query("runs_unfinished")).fetchall()
    return [row for row in rows if not is_driven(row.holder, alive=row.lease_is_alive)]


def is_driven(holder: str | None, *, alive: bool) -> bool:
    """Whether a lease, alive by the database's clock, belongs to a process that may still live."""
    return alive and not (holder and is_dead_holder(holder))


def begin_recovery(
    connection: psycopg.Connection, run_id: RunId, *, limit: int = MAX_RECOVERIES
) -> Decision:
    """Counts one more recovery of the run, or ends it; the runner's connection in autocommit.

    LEAVE: somebody drives it again, or it has ended meanwhile.
    """
    lease = try_acquire(connection, run_lease(run_id))
    if lease is None:
        return Decision.LEAVE
    try:
        if settle_cancelled(connection, run_id, lease):
            return Decision.CANCEL
        with connection.transaction():
            assert_fence(connection, lease)
            row = connection.execute(query("runs_begin_recovery"), [run_id]).fetchone()
            if row is None:
                return Decision.LEAVE
            recoveries, stage = row
            if recoveries <= limit:
                return Decision.RESUME
            _give_up(connection, run_id, lease, limit, StageName(stage) if stage else None)
            return Decision.GIVE_UP
    finally:
        release(connection, lease)


def _give_up(
    connection: psycopg.Connection,
    run_id: RunId,
    lease: Lease,
    recoveries: int,
    stage: StageName | None,
) -> None:
    failure = failure_of(
        InternalError(
            f"the worker of run {run_id} died and was replaced {recoveries} times, so it is not "
            f"resumed by itself any more. Find out what ends it: sluice runs show {run_id}; then: "
            f"sluice replay {run_id}",
            code=Cause.ATTEMPTS_EXHAUSTED,
        ),
        stage,
    )
    tell_owner(connection, run_id, lease, Outcome.FAILED, failure)
    close_stages(connection, run_id)
    finish_run(connection, run_id, lease, Outcome.FAILED, failure=failure, version_id=None)


def supersede(connection: psycopg.Connection, run: Run, by: RunId, lease: Lease) -> None:
    """The request of `run` goes on as the run `by`; an unfinished run ends here.

    One transaction, under the lease of `run`. Raises `LeaseLost`.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "update ops.runs set superseded_by = %s where run_id = %s", [by, run.run_id]
        )
        if run.status not in {"accepted", "running"}:
            return
        failure = failure_of(
            InternalError(
                f"the code changed while the run was interrupted, so its request goes on as run {by}; "
                f"see: sluice status {by}",
                code=Cause.SUPERSEDED,
            ),
            None,
        )
        close_stages(connection, run.run_id)
        finish_run(connection, run.run_id, lease, Outcome.FAILED, failure=failure, version_id=None)

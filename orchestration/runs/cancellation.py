"""Stopping a run for good until somebody asks for it again: a durable request in the run's row.

A worker sees it within about a second, has the statements that it waits for stopped, and ends as it
would for any failure; where there is no worker, the request is settled at once. What is finished is
kept, and what is published stays as it is.
"""

import threading
import time
from datetime import datetime
from typing import Literal, Self

import psycopg

from orchestration.errors import Cancelled
from orchestration.identity import RunId
from orchestration.model import Outcome, StageName
from orchestration.runs.leases import release, try_acquire
from orchestration.runs.messages import failure_of, tell_owner
from orchestration.runs.polling import Poll
from orchestration.runs.state import close_stages, finish_run, record_action
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, assert_fence, run_lease
from orchestration.warehouse.sessions import stop_statements

Answer = Literal["cancelled", "requested", "ended"]
"""What a request came to: settled; waiting for the run's worker; the run had ended before."""

_POLL_S = 0.5
# Those who load, build and judge. The runner writes down what came of it, and a publication is short.
_INTERRUPTED = (Role.EXTRACTOR, Role.TRANSFORMER, Role.GATE)


def request_cancel(
    connection: psycopg.Connection,
    run_id: RunId,
    *,
    reason: str,
    wait_s: float,
    actor: str | None = None,
) -> Answer:
    """Asks for the run to be stopped and waits at most `wait_s` seconds until it has.

    Needs the runner's connection in autocommit. The request outlives this process.
    """
    with connection.transaction():
        asked = connection.execute(
            query("runs_request_cancel"), {"run_id": run_id, "reason": reason, "actor": actor}
        ).fetchone()
        if asked is None:
            return "ended"
        record_action(connection, "cancel", run_id, reason, actor)
    deadline = time.monotonic() + wait_s
    while True:
        lease = try_acquire(connection, run_lease(run_id))
        if lease is not None:
            try:
                settle_cancelled(connection, run_id, lease)
            finally:
                release(connection, lease)
        row = connection.execute(
            "select status from ops.runs where run_id = %s", [run_id]
        ).fetchone()
        if row and row[0] not in {"accepted", "running"}:
            return "cancelled" if row[0] == "cancelled" else "ended"
        if time.monotonic() >= deadline:
            return "requested"
        time.sleep(_POLL_S)


def settle_cancelled(connection: psycopg.Connection, run_id: RunId, lease: Lease) -> bool:
    """accepted | running → cancelled where a request stands, in a transaction of its own.

    Needs the run's lease: nobody drives it. Says whether it was so. Raises `LeaseLost`.
    """
    with connection.transaction():
        found = connection.execute(query("runs_cancel_requested"), [run_id]).fetchone()
        if found is None:
            return False
        stage = StageName(found[0]) if found[0] else None
        failure = failure_of(Cancelled(run_id), stage)
        tell_owner(connection, run_id, lease, Outcome.FAILED, failure)
        close_stages(connection, run_id)
        finish_run(connection, run_id, lease, Outcome.FAILED, failure=failure, version_id=None)
    return True


def take_back_cancel(
    connection: psycopg.Connection, run_id: RunId, lease: Lease, asked_at: datetime
) -> None:
    """A run that is asked for again goes on; a request made after `asked_at` stands.

    Raises `Cancelled` for such a request, and `LeaseLost`.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(query("runs_take_back_cancel"), [run_id, asked_at])
        still = connection.execute(
            "select 1 from ops.runs where run_id = %s and cancel_requested_at is not null", [run_id]
        ).fetchone()
    if still:
        raise Cancelled(run_id)


def heed_cancel(connection: psycopg.Connection, run_id: RunId, lease: Lease) -> None:
    """For a worker that goes on with a run for whom it was asked for before: requests stand.

    Under the run's lease. Raises `Cancelled`, once the run has ended so, and `LeaseLost`.
    """
    settled = settle_cancelled(connection, run_id, lease)
    stands = connection.execute(
        "select 1 from ops.runs "
        "where run_id = %s and status = 'cancelled' and cancel_requested_at is not null",
        [run_id],
    ).fetchone()
    if settled or stands:
        raise Cancelled(run_id)


def database_time(connection: psycopg.Connection) -> datetime:
    """Now, by the clock that requests are dated by."""
    row = connection.execute("select clock_timestamp()").fetchone()
    if row is None:
        raise AssertionError("the database did not tell the time")
    moment: datetime = row[0]
    return moment


class CancelWatch:
    """Looks, once a second, whether somebody asked for the run to be stopped.

    From then on it stops what the worker's sessions are executing, as often as there is something:
    `warehouse` must name the worker.
    """

    def __init__(self, warehouse: Warehouse, run_id: RunId) -> None:
        self._warehouse = warehouse
        self._run_id = run_id
        self._requested = threading.Event()
        self._poll = Poll(warehouse, "cancel-watch", 1.0, self._look)

    def __enter__(self) -> Self:
        self._poll.__enter__()
        return self

    def __exit__(self, *unused: object) -> None:
        self._poll.__exit__(*unused)

    def is_requested(self) -> bool:
        return self._requested.is_set()

    def check(self) -> None:
        """Raises `Cancelled` once the request was seen."""
        if self._requested.is_set():
            raise Cancelled(self._run_id)

    def _look(self, connection: psycopg.Connection) -> None:
        row = connection.execute(
            "select cancel_requested_at is not null from ops.runs where run_id = %s",
            [self._run_id],
        ).fetchone()
        if row and row[0]:
            self._requested.set()
            for role in _INTERRUPTED:
                stop_statements(self._warehouse, role)

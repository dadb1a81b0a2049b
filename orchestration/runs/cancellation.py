"""Stopping a run for good until somebody asks for it again: a durable request in the run's row.

A worker sees it between units and stops as it would for any failure; where there is no worker, the
request is settled at once. What is finished is kept, and what is published stays as it is.
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
from orchestration.runs.state import close_stages, finish_run
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, assert_fence, run_lease

Answer = Literal["cancelled", "requested", "ended"]
"""What a request came to: settled; waiting for the run's worker; the run had ended before."""

_POLL_S = 0.5


def request_cancel(
    connection: psycopg.Connection, run_id: RunId, *, reason: str, wait_s: float
) -> Answer:
    """Asks for the run to be stopped and waits at most `wait_s` seconds until it has.

    Needs the runner's connection in autocommit. The request outlives this process.
    """
    with connection.transaction():
        asked = connection.execute(query("runs_request_cancel"), [reason, run_id]).fetchone()
        if asked is None:
            return "ended"
        connection.execute(
            "insert into ops.operator_actions (action, target, reason) values ('cancel', %s, %s)",
            [run_id, reason],
        )
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


def database_time(connection: psycopg.Connection) -> datetime:
    """Now, by the clock that requests are dated by."""
    row = connection.execute("select clock_timestamp()").fetchone()
    if row is None:
        raise AssertionError("the database did not tell the time")
    moment: datetime = row[0]
    return moment


class CancelWatch:
    """Looks from a thread, once a second, whether somebody asked for the run to be stopped.

    It has a connection of its own, which it opens after the first second.
    """

    def __init__(self, warehouse: Warehouse, run_id: RunId, *, poll_s: float = 1.0) -> None:
        self._warehouse = warehouse
        self._run_id = run_id
        self._poll_s = poll_s
        self._requested = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="cancel-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def is_requested(self) -> bool:
        return self._requested.is_set()

    def check(self) -> None:
        """Raises `Cancelled` once the request was seen."""
        if self._requested.is_set():
            raise Cancelled(self._run_id)

    def _look(self) -> None:
        connection: psycopg.Connection | None = None
        while not self._stop.wait(self._poll_s) and not self._requested.is_set():
            try:
                if connection is None or connection.closed:
                    connection = self._warehouse.connect(Role.RUNNER, autocommit=True)
                row = connection.execute(
                    "select cancel_requested_at is not null from ops.runs where run_id = %s",
                    [self._run_id],
                ).fetchone()
            except psycopg.Error:
                # The server may be restarting; the request stands in its row until it is back.
                if connection is not None:
                    connection.close()
                connection = None
                continue
            if row and row[0]:
                self._requested.set()
        if connection is not None:
            connection.close()

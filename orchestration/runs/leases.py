"""Who may work on a thing now: leases in the warehouse, by its clock, kept alive by a heartbeat.

Every acquisition has a larger fence. A lease that cannot be extended is lost, and `check` says so
before its owner writes anything more; the database refuses the write in any case.
"""

import contextlib
import functools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Self

import psycopg

from orchestration.errors import Busy, LeaseLost
from orchestration.processes import ProcessId, identify
from orchestration.runs.polling import Poll
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.fence import Lease

TTL = timedelta(seconds=15)
_BEATS_PER_TTL = 3
_POLL_S = 0.25


def holder_name() -> str:
    """`machine|pid|start`: enough to tell on the same machine whether the holder still lives."""
    return _name_holder(os.getpid())


@functools.cache
def _name_holder(pid: int) -> str:
    process = identify(pid)
    return f"{_machine()}|{pid}|{process.started if process else ''}"


def try_acquire(connection: psycopg.Connection, name: str) -> Lease | None:
    """The lease, or None while another process has it; a dead one of this machine has nothing."""
    for _ in range(2):
        row = connection.execute(
            "select ops.acquire_lease(%s, %s, %s)", [name, holder_name(), TTL]
        ).fetchone()
        if row and row[0] is not None:
            return Lease(name, row[0])
        if not release_dead_holder(connection, name):
            return None
    return None


def take_over(connection: psycopg.Connection, name: str, holder: str) -> Lease | None:
    """The lease under a new fence, free or from the hands of `holder`, who wants it to be taken.

    None while anybody else has it. The runner's connection in autocommit.
    """
    with connection.transaction():
        row = connection.execute(
            "select fence from ops.leases where name = %s and holder = %s", [name, holder]
        ).fetchone()
        if row is not None:
            # In one transaction, so that nobody is quicker; only the fence that was seen is ended.
            release(connection, Lease(name, row[0]))
        return try_acquire(connection, name)


def acquire(
    connection: psycopg.Connection,
    name: str,
    *,
    wait_s: float,
    on_wait: Callable[[str], None] | None = None,
    check: Callable[[], None] | None = None,
    giver: str | None = None,
) -> Lease:
    """Waits for the lease at most `wait_s` seconds; raises `Busy` after that.

    `check` is called while waiting and may raise whatever ends the wait. From the holder `giver` the
    lease is taken over.
    """
    deadline = time.monotonic() + wait_s
    said = False
    while (lease := _take(connection, name, giver)) is None:
        if time.monotonic() >= deadline:
            raise Busy(
                f"another process holds the lease {name!r}; "
                "wait until it has finished and run the same command again"
            )
        if not said and on_wait is not None:
            on_wait(name)
            said = True
        if check is not None:
            check()
        time.sleep(_POLL_S)
    return lease


def _take(connection: psycopg.Connection, name: str, giver: str | None) -> Lease | None:
    return take_over(connection, name, giver) if giver else try_acquire(connection, name)


def extend(connection: psycopg.Connection, lease: Lease) -> bool:
    """Whether the lease was still ours, and is for another `TTL`."""
    row = connection.execute(
        "select ops.extend_lease(%s, %s, %s)", [lease.name, lease.fence, TTL]
    ).fetchone()
    return bool(row and row[0])


def release(connection: psycopg.Connection, lease: Lease) -> None:
    """Gives the lease back; of no effect when it was lost meanwhile."""
    connection.execute("select ops.release_lease(%s, %s)", [lease.name, lease.fence])


class Heartbeat:
    """Extends leases from a thread with a connection of its own until closed."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._leases: dict[str, Lease] = {}
        self._lost: set[str] = set()
        self._guard = threading.Lock()
        interval_s = TTL.total_seconds() / _BEATS_PER_TTL
        self._poll = Poll(warehouse, "lease-heartbeat", interval_s, self._extend_all)

    def __enter__(self) -> Self:
        self._poll.__enter__()
        return self

    def __exit__(self, *unused: object) -> None:
        self._poll.__exit__(*unused)

    @contextlib.contextmanager
    def keep(self, *leases: Lease) -> Iterator[None]:
        with self._guard:
            self._leases.update({lease.name: lease for lease in leases})
        try:
            yield
        finally:
            for lease in leases:
                self.forget(lease)

    def take_up(self, lease: Lease) -> None:
        """Goes on with a lease that was acquired anew, in place of the one of the same name."""
        with self._guard:
            self._leases[lease.name] = lease
            self._lost.discard(lease.name)

    def forget(self, lease: Lease) -> None:
        """Stops extending a lease that was given back."""
        with self._guard:
            self._leases.pop(lease.name, None)
            self._lost.discard(lease.name)

    def check(self) -> None:
        """Raises `LeaseLost` as soon as one of the kept leases is known to be lost."""
        with self._guard:
            if lost := self._lost & set(self._leases):
                raise LeaseLost(min(lost))

    def _extend_all(self, connection: psycopg.Connection) -> None:
        with self._guard:
            leases = list(self._leases.values())
        for lease in leases:
            if not extend(connection, lease):
                with self._guard:
                    if self._leases.get(lease.name) == lease:
                        self._lost.add(lease.name)


def release_dead_holder(connection: psycopg.Connection, name: str) -> bool:
    """Whether the lease was that of a dead process of this machine, and is free now."""
    row = connection.execute(
        "select holder, fence from ops.leases where name = %s", [name]
    ).fetchone()
    if not row or not row[0] or not is_dead_holder(row[0]):
        return False
    release(connection, Lease(name, row[1]))
    return True


def is_dead_holder(holder: str) -> bool:
    """Whether the holder was a process of this machine that has ended since."""
    machine, pid, started = holder.split("|")
    return machine == _machine() and identify(int(pid)) != ProcessId(int(pid), started)


def _machine() -> str:
    """Where a pid means something: containers may share a host's name, but not its processes."""
    try:
        return f"{socket.gethostname()} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return socket.gethostname()

"""When a slot may be touched: once nobody can still see it as the active one.

A snapshot that does not see the last flip was taken while the flip's transaction was running or
before, so its xmin is at most that transaction's id. Waiting is bounded; what still stands in the
way then is named, without its query.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import psycopg
from psycopg.rows import class_row

from orchestration.errors import ConfigurationError, DestinationFailure
from orchestration.sql.queries import query

_XID_SPACE = 2**32
_NAMED = 3
# Most readers are gone before it is worth asking everybody's locks.
_BRIEF_READS = 10
_TIME_TO_END_S = 10.0


@dataclass(frozen=True)
class Patience:
    """How long a publication may wait for readers before it stops as transient.

    `lock_timeout_ms` is how long readers may queue behind one attempt to replace a view; it is kept
    below the server's deadlock_timeout. `end_readers` ends who is left then, once, instead of
    stopping. `check` is asked while waiting and may raise what ends it. `honour_grace` is false only
    in tests of the stamp.
    """

    wait_s: float = 60.0
    poll_s: float = 0.02
    lock_timeout_ms: int = 100
    honour_grace: bool = True
    end_readers: bool = False
    check: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Occupant:
    """Whoever stands in the way; ids of transactions are 32 bits, `horizon` has 64."""

    kind: str
    name: str
    user_name: str | None
    application: str | None
    since: datetime | None
    horizon: int = 0
    xmin: int | None = None
    xid: int | None = None
    can_read_here: bool = True
    age_s: float = 0.0

    def __str__(self) -> str:
        parts = [f"pid {self.name}" if self.kind == "session" else f"{self.kind} {self.name!r}"]
        if self.user_name:
            parts.append(f"user {self.user_name}")
        if self.application:
            parts.append(f"application {self.application!r}")
        if self.since:
            parts.append(f"since {self.since:%Y-%m-%d %H:%M:%S} UTC")
        return ", ".join(parts)


def extend_xid(xid: int, horizon: int) -> int:
    """The 64-bit id of a 32-bit transaction id that is less than 2^31 away from `horizon`."""
    behind = (horizon - xid) % _XID_SPACE
    if behind >= _XID_SPACE // 2:
        behind -= _XID_SPACE
    return horizon - behind


def may_see_before(occupants: Sequence[Occupant], flipped_by: int) -> list[Occupant]:
    """Those whose snapshot may miss the flip. A session of another database cannot read here.

    A flip that is not before the horizon was restored from another server: everybody sees it.
    """
    return [
        occupant
        for occupant in occupants
        if occupant.xmin is not None
        and occupant.can_read_here
        and extend_xid(occupant.xmin, occupant.horizon) <= flipped_by < occupant.horizon
    ]


def holders_back(occupants: Sequence[Occupant], flipped_by: int) -> list[Occupant]:
    """Open writers, of any database, that make even new snapshots look that old."""
    return [
        occupant
        for occupant in occupants
        if occupant.xid is not None and extend_xid(occupant.xid, occupant.horizon) <= flipped_by
    ]


def await_grace(
    connection: psycopg.Connection, flipped_by: int, patience: Patience, deadline: float
) -> None:
    """Returns once every snapshot sees the transaction `flipped_by` (a 64-bit id).

    Whoever reads a version in its own schema, and nothing that is published, is not waited for; if
    it turns to published views with its old snapshot after all, their stamp refuses. Needs
    autocommit: statistics stand still inside a transaction. `deadline` is in the terms of
    `time.monotonic`. Raises `DestinationFailure` (`long_reader`, transient) when it passes, and
    `ConfigurationError` when this role cannot see other sessions.
    """
    _require_sight(connection)
    pause = patience.poll_s / 4
    look_closely_at = time.monotonic() + patience.poll_s * _BRIEF_READS
    while True:
        with connection.cursor(row_factory=class_row(Occupant)) as cursor:
            occupants = cursor.execute(query("publication_sessions")).fetchall()
        waiting_for = may_see_before(occupants, flipped_by)
        if waiting_for and time.monotonic() >= look_closely_at:
            waiting_for = _without_version_readers(connection, waiting_for)
        if not waiting_for:
            return
        if time.monotonic() >= deadline:
            # A writer is the cause when there is one: readers that come and go only look old.
            standing = holders_back(occupants, flipped_by) or waiting_for
            patience, deadline = at_the_end(connection, standing, patience)
        patience.check()
        time.sleep(pause)
        pause = min(pause * 1.5, patience.poll_s * 10)


def _without_version_readers(
    connection: psycopg.Connection, occupants: Sequence[Occupant]
) -> list[Occupant]:
    pids = [int(occupant.name) for occupant in occupants if occupant.kind == "session"]
    rows = connection.execute(query("publication_version_readers"), {"pids": pids}).fetchall()
    of_versions = {str(pid) for (pid,) in rows}
    return [o for o in occupants if o.kind != "session" or o.name not in of_versions]


def at_the_end(
    connection: psycopg.Connection, standing: Sequence[Occupant], patience: Patience
) -> tuple[Patience, float]:
    """What becomes of a wait that is over: those in the way are ended and a little more time is
    given, once, if the policy says so; else raises `DestinationFailure` (`long_reader`).

    Only people's sessions are ended, never those of Sluice's own roles. Raises
    `ConfigurationError` (`cannot_end_readers`) without the right to.
    """
    if not (patience.end_readers and _end(connection, standing, patience)):
        raise long_reader(standing, patience)
    return replace(patience, end_readers=False), time.monotonic() + _TIME_TO_END_S


def _end(connection: psycopg.Connection, standing: Sequence[Occupant], patience: Patience) -> bool:
    pids = [int(occupant.name) for occupant in standing if occupant.kind == "session"]
    reason = f"kept a publication waiting for more than {patience.wait_s:g} s"
    try:
        row = connection.execute(
            "select coalesce(bool_or(ops.end_reader(pid, %s)), false) from unnest(%s::int[]) as pid",
            [reason, pids],
        ).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        raise ConfigurationError(
            "the pipeline's policy is to end readers that keep a publication waiting, and the owner of "
            "the warehouse may not end sessions; ask an administrator to grant it pg_signal_backend, "
            "or say `on_long_reader: wait`",
            code="cannot_end_readers",
        ) from None
    return bool(row and row[0])


def long_reader(occupants: Sequence[Occupant], patience: Patience) -> DestinationFailure:
    """The failure that names who kept the publication waiting, the oldest first."""
    named = sorted(occupants, key=lambda o: o.since.timestamp() if o.since else math.inf)
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return DestinationFailure(
        f"readers kept this publication waiting for more than {patience.wait_s:g} s: "
        + ("; ".join(str(occupant) for occupant in named[:_NAMED]) or "none is left by now")
        + more
        + ". Nothing changed for anybody; end that transaction or wait for it, then run the same "
        "command again",
        code="long_reader",
        transient=True,
    )


def _require_sight(connection: psycopg.Connection) -> None:
    row = connection.execute(
        "select pg_has_role('pg_read_all_stats', 'usage'), current_user"
    ).fetchone()
    if row and not row[0]:
        raise ConfigurationError(
            f"{row[1]} cannot see other sessions, so nobody can tell whether a slot is still being "
            f"read; ask an administrator to run: grant pg_read_all_stats to {row[1]}",
            code="statistics_hidden",
        )

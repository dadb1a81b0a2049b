"""The one transaction that makes a version the one that every published view shows.

It compares and sets: whatever moved since the caller looked leaves everything as it was. A commit
whose answer was lost is resolved by asking the server what became of that transaction.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg.types.json import Jsonb

from orchestration.errors import Busy, DestinationFailure
from orchestration.identity import RunId, VersionId
from orchestration.publication.objections import raise_objections, require_publishable
from orchestration.publication.state import Pointer, read_pointer
from orchestration.publication.views import Slot, other_slot
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, fenced

_MOVED = "SL002"
_RECONNECTS = 5


@dataclass(frozen=True)
class Publication:
    """What is in force now. `run_id` is that of the flip: the caller's own if it did it before.

    `flip_s` is how long the pointer was locked, commit included.
    """

    outcome: Literal["published", "unchanged"]
    publication_id: int
    version_id: VersionId
    slot: Slot
    previous: VersionId | None
    run_id: RunId | None
    flip_s: float = 0.0


@dataclass(frozen=True)
class _Request:
    pipeline: str
    version_id: VersionId
    expected: VersionId | None
    lease: Lease
    run_id: RunId | None
    owner: str
    kind: Literal["publish", "rollback"]
    reason: str | None
    actor: str | None
    tell: bool


@dataclass(frozen=True)
class _Turned:
    """The pointer as it was when it was locked, the models that stood in the way, and what was
    written and committed."""

    found: Pointer | None
    unprepared: list[str]
    publication_id: int | None


def publish_version(
    warehouse: Warehouse,
    pipeline: str,
    version_id: VersionId,
    *,
    expected_current: VersionId | None,
    lease: Lease,
    run_id: RunId | None,
    owner: str,
    kind: Literal["publish", "rollback"] = "publish",
    reason: str | None = None,
    actor: str | None = None,
    tell: bool = True,
    before_commit: Callable[[], None] | None = None,
) -> Publication:
    """Flips the pipeline's pointer to the version that `prepare_slot` put into the idle slot.

    `expected_current` is the published version as the caller knows it. A version that is published
    already is left alone: `unchanged`. Without `tell` the message about it only goes to the log.
    Raises, with nothing changed: `Busy` (`version_moved`;
    `rebase_needed` if it lacks newer partitions that people see today), `LeaseLost`,
    `QualityFailure` (`not_passed`), `ConfigurationError` (`shape_change`), `DestinationFailure`
    (`lineage_incomplete`; transient: `slot_not_prepared`, `commit_unknown`).
    """
    request = _Request(
        pipeline, version_id, expected_current, lease, run_id, owner, kind, reason, actor, tell
    )
    with warehouse.connect(Role.PUBLISHER) as connection:
        seen = read_pointer(connection, pipeline)
        if seen and seen.version_id == version_id:
            return _unchanged(connection, seen)
        if (seen.version_id if seen else None) != expected_current:
            raise _moved(request)
        slot = other_slot(seen.active_slot) if seen else "a"
        # Facts that never change are looked up before the lock, what may change is after it.
        require_publishable(connection, pipeline, version_id, slot, kind)
        values = _values(connection, request, slot, seen)
        _rehearse(connection, values)
        started = time.monotonic()
        try:
            turned = _turn(connection, values, before_commit)
        except psycopg.Error as error:
            if error.sqlstate == _MOVED:
                raise _moved(request) from None
            if not isinstance(error, psycopg.OperationalError) or not _is_lost(connection, error):
                raise
            connection.close()
            _resolve(warehouse, values["xid"])
            turned = _Turned(seen, [], values["publication_id"])
        flip_s = time.monotonic() - started
        if turned.found and turned.found.version_id == version_id:
            return _unchanged(connection, turned.found)
        if turned.found == seen:
            raise_objections(version_id, [("slot", model) for model in turned.unprepared])
        if turned.publication_id is None:
            raise _moved(request)
    return Publication(
        "published", turned.publication_id, version_id, slot, expected_current, run_id, flip_s
    )


def _rehearse(connection: psycopg.Connection, values: dict[str, Any]) -> None:
    """Has this session plan and load what it needs under the lock, and takes all of it back."""
    connection.execute("set local plan_cache_mode = force_generic_plan")
    with fenced(Lease(values["lease"], values["fence"])):
        connection.execute(query("publication_rehearse"), values)


def _turn(
    connection: psycopg.Connection,
    values: dict[str, Any],
    before_commit: Callable[[], None] | None,
) -> _Turned:
    """Locks the pointer, checks, writes and commits, in one round trip.

    Whatever stands in the way has kept it from writing anything. Raises `LeaseLost`, and
    `psycopg.OperationalError` when the answer was lost.
    """
    with fenced(Lease(values["lease"], values["fence"])), connection.pipeline():
        cursor = connection.execute(query("publication_turn"), values)
        if before_commit:
            before_commit()
        connection.commit()
    standing, unprepared, publication_id = cursor.fetchone() or (None, None, None)
    return _Turned(Pointer(**standing) if standing else None, unprepared or [], publication_id)


def _values(
    connection: psycopg.Connection, request: _Request, slot: Slot, seen: Pointer | None
) -> dict[str, Any]:
    publication_id, xid = connection.execute(
        "select nextval('ops.publications_publication_id_seq'), pg_current_xact_id()::text"
    ).fetchone() or (None, None)
    payload = {
        "version_id": request.version_id,
        "previous_version_id": request.expected,
        "slot": slot,
        "kind": request.kind,
        "reason": request.reason,
        "alert": request.tell,
    }
    return {
        "pipeline": request.pipeline,
        "version_id": request.version_id,
        "expected": request.expected,
        "slot": slot,
        "kind": request.kind,
        "seen_publication": seen.publication_id if seen else None,
        "seen_flip": seen.flipped_by if seen else None,
        "lease": request.lease.name,
        "fence": request.lease.fence,
        "publication_id": publication_id,
        "xid": xid,
        "run_id": request.run_id,
        "reason": request.reason,
        "actor": request.actor,
        "owner": request.owner,
        "payload": Jsonb(payload),
    }


def _unchanged(connection: psycopg.Connection, pointer: Pointer) -> Publication:
    row = connection.execute(
        "select previous_version_id, run_id from ops.publications where publication_id = %s",
        [pointer.publication_id],
    ).fetchone()
    previous, run_id = row or (None, None)
    return Publication(
        "unchanged",
        pointer.publication_id,
        pointer.version_id,
        pointer.active_slot,
        previous,
        run_id,
    )


def _is_lost(connection: psycopg.Connection, error: psycopg.OperationalError) -> bool:
    """Whether the answer is, and not only the statement refused."""
    return error.sqlstate is None or connection.broken


def _resolve(warehouse: Warehouse, flip: str) -> None:
    """Returns if the transaction was committed after all, raises if it was not or nobody knows."""
    status = None
    for attempt in range(_RECONNECTS):
        time.sleep(0.1 * 2**attempt)
        try:
            with warehouse.connect(Role.PUBLISHER, autocommit=True) as connection:
                row = connection.execute("select pg_xact_status(%s::xid8)", [flip]).fetchone()
        except psycopg.OperationalError:
            continue
        status = row[0] if row else None
        if status == "committed":
            return
        if status == "aborted":
            break
    outcome = (
        "nothing was published" if status == "aborted" else "nobody knows whether it was published"
    )
    raise DestinationFailure(
        f"the warehouse went away at the moment of publication, {outcome}; run the same command "
        "again, it looks first",
        code="commit_unknown",
        transient=True,
    )


def _moved(request: _Request) -> Busy:
    return Busy(
        f"another version of {request.pipeline} was published meanwhile (expected "
        f"{request.expected or 'none'}), so nothing was changed; run the same command again",
        code="version_moved",
    )

"""The one transaction that makes a version the one that every published view shows.

It compares and sets: whatever moved since the caller looked leaves everything as it was. A commit
whose answer was lost is resolved by asking the server what became of that transaction.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import psycopg
from psycopg.types.json import Jsonb

from orchestration.errors import Busy, DestinationFailure, QualityFailure
from orchestration.identity import RunId, VersionId
from orchestration.publication.shapes import require_compatible
from orchestration.publication.state import Pointer, read_pointer
from orchestration.publication.views import Slot, other_slot
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, assert_fence

_PUBLISHABLE = ("passed", "published", "retired")
_LISTED = 5
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
    before_commit: Callable[[], None] | None = None,
) -> Publication:
    """Flips the pipeline's pointer to the version that `prepare_slot` put into the idle slot.

    `expected_current` is the published version as the caller knows it. A version that is published
    already is left alone: `unchanged`. Raises, with nothing changed: `Busy` (`version_moved`;
    `rebase_needed` if it lacks newer partitions that people see today), `LeaseLost`,
    `QualityFailure` (`not_passed`), `ConfigurationError` (`shape_change`), `DestinationFailure`
    (`lineage_incomplete`; transient: `slot_not_prepared`, `commit_unknown`).
    """
    request = _Request(
        pipeline, version_id, expected_current, lease, run_id, owner, kind, reason, actor
    )
    with warehouse.connect(Role.PUBLISHER) as connection:
        seen = read_pointer(connection, pipeline)
        if seen and seen.version_id == version_id:
            return _unchanged(connection, seen)
        if (seen.version_id if seen else None) != expected_current:
            raise _moved(request)
        slot = other_slot(seen.active_slot) if seen else "a"
        # Facts that never change are looked up before the lock, what may change is after it.
        _require_publishable(connection, request, slot)
        started = time.monotonic()
        pointer = read_pointer(connection, pipeline, lock=True)
        if pointer and pointer.version_id == version_id:
            return _unchanged(connection, pointer)
        if pointer != seen:
            raise _moved(request)
        assert_fence(connection, lease)
        _require_prepared(connection, request, slot)
        publication_id, flip = _flip(connection, request, slot)
        if before_commit:
            before_commit()
        try:
            connection.commit()
        except psycopg.OperationalError:
            connection.close()
            _resolve(warehouse, flip)
        flip_s = time.monotonic() - started
    return Publication(
        "published", publication_id, version_id, slot, expected_current, run_id, flip_s
    )


def _require_publishable(connection: psycopg.Connection, request: _Request, slot: Slot) -> None:
    row = connection.execute(
        "select state from ops.versions where version_id = %s and pipeline = %s",
        [request.version_id, request.pipeline],
    ).fetchone()
    if row is None or row[0] not in _PUBLISHABLE:
        raise QualityFailure(
            f"version {request.version_id} did not pass its gates "
            f"({row[0] if row else 'unknown to this pipeline'}), so it cannot be published; "
            "see: sluice gates show",
            code="not_passed",
        )
    rows = connection.execute(
        query("publication_objections"),
        {
            "version_id": request.version_id,
            "pipeline": request.pipeline,
            "slot": slot,
            "kind": request.kind,
        },
    ).fetchall()
    segments = connection.execute(
        query("publication_segments"), {"version_id": request.version_id}
    ).fetchall()
    _raise_objections(request, [*rows, *(("lineage", subject) for (subject,) in segments)])


def _require_prepared(connection: psycopg.Connection, request: _Request, slot: Slot) -> None:
    rows = connection.execute(
        query("publication_unprepared"),
        {"version_id": request.version_id, "pipeline": request.pipeline, "slot": slot},
    ).fetchall()
    _raise_objections(request, [("slot", model) for (model,) in rows])


def _raise_objections(request: _Request, rows: Sequence[tuple[Any, ...]]) -> None:
    found: dict[str, list[str]] = {}
    for objection, subject in rows:
        found.setdefault(objection, []).append(subject)
    if lineage := found.get("lineage"):
        raise DestinationFailure(
            f"version {request.version_id} cannot be traced to its sources: {_some(lineage)}; "
            "run the pipeline again to build what is missing",
            code="lineage_incomplete",
        )
    if partitions := found.get("rebase"):
        raise Busy(
            f"version {request.version_id} lacks what is published in a later revision: "
            f"{_some(partitions)}; run the pipeline again, it starts from what is published",
            code="rebase_needed",
        )
    if models := found.get("model"):
        require_compatible({}, models)
    if models := found.get("slot"):
        raise DestinationFailure(
            f"the idle slot does not show version {request.version_id} ({_some(models)}); "
            "run the same command again, it prepares the slot first",
            code="slot_not_prepared",
            transient=True,
        )


def _flip(connection: psycopg.Connection, request: _Request, slot: Slot) -> tuple[int, str]:
    """(publication id, id of the transaction). Raises `Busy` if there is a pointer after all."""
    payload = {
        "version_id": request.version_id,
        "previous_version_id": request.expected,
        "slot": slot,
        "kind": request.kind,
        "reason": request.reason,
    }
    row = connection.execute(
        query("publication_flip"),
        {
            "pipeline": request.pipeline,
            "version_id": request.version_id,
            "expected": request.expected,
            "kind": request.kind,
            "slot": slot,
            "run_id": request.run_id,
            "reason": request.reason,
            "actor": request.actor,
            "owner": request.owner,
            "message": "published" if request.kind == "publish" else "rolled_back",
            "payload": Jsonb(payload),
        },
    ).fetchone()
    if row is None or row[1] is None:
        raise _moved(request)
    connection.execute(
        "update ops.versions set state = 'retired' where pipeline = %s and state = 'published'",
        [request.pipeline],
    )
    promoted = connection.execute(
        "update ops.versions set state = 'published', published_at = clock_timestamp() "
        "where version_id = %s and state = any(%s)",
        [request.version_id, list(_PUBLISHABLE)],
    )
    if not promoted.rowcount:
        raise _moved(request)
    if request.kind == "rollback":
        connection.execute(
            "insert into ops.operator_actions (action, target, reason, actor) "
            "values ('rollback', %s, %s, coalesce(%s, session_user))",
            [request.version_id, request.reason, request.actor],
        )
    return int(row[0]), str(row[1])


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


def _some(subjects: Sequence[str]) -> str:
    more = f" and {len(subjects) - _LISTED} more" if len(subjects) > _LISTED else ""
    return ", ".join(subjects[:_LISTED]) + more

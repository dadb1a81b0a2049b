"""The durable rows that say how far a stage got; every write is refused unless its fence is alive.

One row per idempotency key, a history row per attempt. A key that another run finished is found
finished here; what a dead worker left `running` is taken over and its attempt marked lost.
"""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from orchestration.errors import SluiceError
from orchestration.identity import IdempotencyKey
from orchestration.model import cause_of
from orchestration.runs.leases import TTL, holder_name, release_dead_holder
from orchestration.stages.base import Checkpoint, Unit
from orchestration.warehouse.fence import Lease, assert_fence, fenced

_COLUMNS = (
    "idempotency_key, status, run_id, fence, attempt, input_ref, output_ref, checksum, result, "
    "error_code"
)


def read_checkpoints(
    connection: psycopg.Connection, units: Iterable[Unit]
) -> dict[Unit, Checkpoint]:
    """The checkpoints that exist for these units."""
    by_key = {unit.key: unit for unit in units}
    with connection.cursor(row_factory=class_row(Checkpoint)) as cursor:
        cursor.execute(
            f"select {_COLUMNS} from ops.checkpoints where idempotency_key = any(%s)",  # noqa: S608
            [list(by_key)],
        )
        return {by_key[IdempotencyKey(row.idempotency_key)]: row for row in cursor.fetchall()}


@dataclass(frozen=True)
class Claimed:
    """A unit whose lease was free; `attempt` is None when it was found finished, so not begun."""

    unit: Unit
    lease: Lease
    attempt: int | None


def claim_units(
    connection: psycopg.Connection, run_id: str, units: Sequence[Unit]
) -> list[Claimed]:
    """Takes the leases that are free and begins an attempt at what is not finished.

    One transaction of its own, for any number of units. What others hold is not in the answer.
    """
    claimed = _claim_free(connection, run_id, units)
    taken = {claim.unit for claim in claimed}
    given_up = [
        unit
        for unit in units
        if unit not in taken and release_dead_holder(connection, unit.lease_name)
    ]
    return claimed + (_claim_free(connection, run_id, given_up) if given_up else [])


def _claim_free(
    connection: psycopg.Connection, run_id: str, units: Sequence[Unit]
) -> list[Claimed]:
    by_key: dict[str, Unit] = {unit.key: unit for unit in units}
    rows = connection.execute(
        "select idempotency_key, fence, attempt from ops.claim_units(%s, %s, %s, %s)",
        [holder_name(), TTL, run_id, _as_json(units)],
    ).fetchall()
    return [
        Claimed(by_key[key], Lease(by_key[key].lease_name, fence), attempt)
        for key, fence, attempt in rows
    ]


def begin_attempts(
    connection: psycopg.Connection, run_id: str, units: Sequence[tuple[Unit, Lease]]
) -> dict[Unit, int]:
    """Marks the units running and returns each one's attempt number (from 1).

    One transaction of its own. Raises `LeaseLost` when any of the leases is gone.
    """
    by_lease: dict[Lease, list[Unit]] = {}
    for unit, lease in units:
        by_lease.setdefault(lease, []).append(unit)
    numbers: dict[str, int] = {}
    with connection.transaction() if len(by_lease) > 1 else nullcontext():
        for lease, group in by_lease.items():
            with fenced(lease):
                rows = connection.execute(
                    "select idempotency_key, attempt from ops.begin_attempts(%s, %s, %s, %s, %s)",
                    [lease.name, lease.fence, run_id, holder_name(), _as_json(group)],
                ).fetchall()
            numbers.update(rows)
    return {unit: numbers[unit.key] for unit, _ in units}


def _as_json(units: Iterable[Unit]) -> Jsonb:
    return Jsonb(
        [
            {
                "key": unit.key,
                "pipeline": unit.pipeline,
                "stage": unit.stage,
                "step": unit.step,
                "source_partition": unit.source_partition,
                "input_ref": unit.input_ref,
                "lease_name": unit.lease_name,
            }
            for unit in units
        ]
    )


def record_success(
    connection: psycopg.Connection,
    unit: Unit,
    lease: Lease,
    *,
    output_ref: str,
    checksum: str | None,
    result: dict[str, Any],
    give_back: bool = False,
) -> Checkpoint:
    """Marks the unit succeeded, in a transaction of its own; `give_back` releases the lease in it.

    Writing it twice under the same fence is the same as once, so a lost answer may be repeated.
    Raises `LeaseLost`.
    """
    with fenced(lease), connection.cursor(row_factory=class_row(Checkpoint)) as cursor:
        cursor.execute(
            f"select {_COLUMNS} from ops.record_success(%s, %s, %s, %s, %s, %s, %s)",  # noqa: S608
            [
                lease.name,
                lease.fence,
                unit.key,
                output_ref,
                checksum,
                Jsonb(result),
                give_back,
            ],
        )
        return cursor.fetchall()[0]


def record_failure(
    connection: psycopg.Connection,
    unit: Unit,
    lease: Lease,
    error: SluiceError,
    *,
    is_final: bool = False,
) -> None:
    """Marks the unit failed for this error, in a transaction of its own. Raises `LeaseLost`.

    A final failure is named for its cause; one that will be tried again has none yet.
    """
    cause = cause_of(error.code, transient=error.transient) if is_final else None
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "update ops.checkpoints set status = 'failed', error_code = %s, error_kind = %s, "
            "error_transient = %s, error_message = %s, cause = %s, finished_at = clock_timestamp() "
            "where idempotency_key = %s and fence = %s",
            [error.code, error.kind, error.transient, error.message, cause, unit.key, lease.fence],
        )
        connection.execute(
            "update ops.attempts set status = 'failed', error_code = %s, error_message = %s, "
            "finished_at = clock_timestamp() where idempotency_key = %s and fence = %s "
            "and status = 'running'",
            [error.code, error.message, unit.key, lease.fence],
        )

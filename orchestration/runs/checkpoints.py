"""The durable rows that say how far a stage got; every write is refused unless its fence is alive.

One row per idempotency key, a history row per attempt. A key that another run finished is found
finished here; what a dead worker left `running` is taken over and its attempt marked lost.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from orchestration.errors import SluiceError
from orchestration.identity import IdempotencyKey
from orchestration.runs.leases import holder_name
from orchestration.stages.base import Checkpoint, Unit
from orchestration.warehouse.fence import Lease, assert_fence


def read_checkpoints(
    connection: psycopg.Connection, units: Iterable[Unit]
) -> dict[Unit, Checkpoint]:
    """The checkpoints that exist for these units."""
    by_key = {unit.key: unit for unit in units}
    with connection.cursor(row_factory=class_row(Checkpoint)) as cursor:
        cursor.execute(
            "select idempotency_key, status, run_id, fence, attempt, input_ref, output_ref, "
            "checksum, result, error_code from ops.checkpoints where idempotency_key = any(%s)",
            [list(by_key)],
        )
        return {by_key[IdempotencyKey(row.idempotency_key)]: row for row in cursor.fetchall()}


_BEGIN = """
insert into ops.checkpoints as c (idempotency_key, pipeline, stage, step, source_partition, run_id,
    status, fence, attempt, input_ref)
values (%(key)s, %(pipeline)s, %(stage)s, %(step)s, %(source_partition)s, %(run_id)s,
    'running', %(fence)s, 1, %(input_ref)s)
on conflict (idempotency_key) do update
    set run_id = excluded.run_id, status = 'running', fence = excluded.fence,
        attempt = c.attempt + 1, input_ref = excluded.input_ref, output_ref = null, checksum = null,
        error_code = null, error_kind = null, error_transient = null, error_message = null,
        started_at = clock_timestamp(), finished_at = null
returning attempt
"""


def begin_attempts(
    connection: psycopg.Connection, run_id: str, units: Sequence[tuple[Unit, Lease]]
) -> dict[Unit, int]:
    """Marks the units running and returns each one's attempt number (from 1).

    One transaction of its own. Raises `LeaseLost` when any of the leases is gone.
    """
    attempts: dict[Unit, int] = {}
    with connection.transaction():
        for unit, lease in units:
            assert_fence(connection, lease)
            row = connection.execute(
                _BEGIN,
                {
                    "key": unit.key,
                    "pipeline": unit.pipeline,
                    "stage": unit.stage,
                    "step": unit.step,
                    "source_partition": unit.source_partition,
                    "run_id": run_id,
                    "fence": lease.fence,
                    "input_ref": unit.input_ref,
                },
            ).fetchone()
            attempts[unit] = row[0] if row else 1
            connection.execute(
                "update ops.attempts set status = 'lost', finished_at = clock_timestamp() "
                "where idempotency_key = %s and status = 'running'",
                [unit.key],
            )
            connection.execute(
                "insert into ops.attempts (idempotency_key, attempt, run_id, fence, worker) "
                "values (%s, %s, %s, %s, %s)",
                [unit.key, attempts[unit], run_id, lease.fence, holder_name()],
            )
    return attempts


def record_success(
    connection: psycopg.Connection,
    unit: Unit,
    lease: Lease,
    *,
    output_ref: str,
    checksum: str | None,
    result: dict[str, Any],
) -> None:
    """Marks the unit succeeded, in a transaction of its own. Raises `LeaseLost`.

    Writing it twice under the same fence is the same as once, so a lost answer may be repeated.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "update ops.checkpoints set status = 'succeeded', output_ref = %s, checksum = %s, "
            "result = %s, finished_at = clock_timestamp() "
            "where idempotency_key = %s and fence = %s",
            [output_ref, checksum, Jsonb(result), unit.key, lease.fence],
        )
        _finish_attempt(connection, unit, lease, "succeeded", None)


def record_failure(
    connection: psycopg.Connection, unit: Unit, lease: Lease, error: SluiceError
) -> None:
    """Marks the unit failed for this error, in a transaction of its own. Raises `LeaseLost`."""
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute(
            "update ops.checkpoints set status = 'failed', error_code = %s, error_kind = %s, "
            "error_transient = %s, error_message = %s, finished_at = clock_timestamp() "
            "where idempotency_key = %s and fence = %s",
            [error.code, error.kind, error.transient, error.message, unit.key, lease.fence],
        )
        _finish_attempt(connection, unit, lease, "failed", error)


def _finish_attempt(
    connection: psycopg.Connection, unit: Unit, lease: Lease, status: str, error: SluiceError | None
) -> None:
    connection.execute(
        "update ops.attempts set status = %s, error_code = %s, error_message = %s, "
        "finished_at = clock_timestamp() where idempotency_key = %s and fence = %s "
        "and status = 'running'",
        [status, error and error.code, error and error.message, unit.key, lease.fence],
    )

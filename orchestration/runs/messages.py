"""What an owner is told about a run that did not end well: one row for each end, however often."""

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from orchestration.errors import SluiceError
from orchestration.model import Outcome, StageName
from orchestration.sql.queries import query
from orchestration.warehouse.fence import Lease, assert_fence


def failure_of(error: SluiceError, stage: StageName | None) -> dict[str, Any]:
    """The `failure` of a run, as it is stored and printed."""
    return {
        "kind": error.kind,
        "stage": stage,
        "error_code": error.code,
        "transient": error.transient,
        "message": error.message,
    }


def tell_owner(
    connection: psycopg.Connection,
    run_id: str,
    lease: Lease,
    outcome: Outcome,
    failure: dict[str, Any],
) -> None:
    """Writes the message for the owner of the stage, or of the run, as the run's rows name them.

    Inside the caller's transaction, under the run's lease. Raises `LeaseLost`.
    """
    assert_fence(connection, lease)
    connection.execute(
        query("runs_tell_owner"),
        {
            "run_id": run_id,
            "kind": outcome,
            "stage": failure["stage"],
            "dedup_key": f"{outcome}:{run_id}:{failure['stage']}:{failure['error_code']}",
            "payload": Jsonb(failure),
        },
    )

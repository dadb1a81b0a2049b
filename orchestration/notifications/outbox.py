"""A message becomes a row in the transaction of its cause; telling it comes later."""

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from orchestration.model import Run
from orchestration.sql.queries import query


def write_message(
    connection: psycopg.Connection,
    run: Run,
    kind: str,
    key: str,
    owner: str,
    payload: dict[str, Any],
) -> None:
    """One message of a run, once for each key; in the caller's transaction, which is fenced."""
    connection.execute(
        query("outbox_insert"),
        {
            "key": f"{kind}:{key}",
            "pipeline": run.pipeline,
            "run_id": run.run_id,
            "kind": kind,
            "owner": owner,
            "payload": Jsonb(payload),
        },
    )

"""Messages in an inbox, put there as the web service's role does, and rounds of the dispatcher."""

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from orchestration.code import Code
from orchestration.pipelines.files import get_pipeline
from orchestration.pipelines.spec import PipelineSpec
from orchestration.pipelines.webhook import WebhookPolicy
from orchestration.settings import Settings
from orchestration.triggers.events import Event, EventType
from orchestration.warehouse.connections import Role, Warehouse

CODE = Code("d", "s", "c", "p", None, None)


def put(
    warehouse: Warehouse,
    message_id: str,
    *days: str,
    resource: str = "flights.flights",
    corrected: bool = False,
) -> str:
    """What the inbox says: new, repeated or different."""
    kind = EventType.CORRECTED if corrected else EventType.READY
    event = Event(kind, resource, days or ("snapshot",), ("flights",))
    with warehouse.connect(Role.WEBHOOK, autocommit=True) as connection:
        row = connection.execute(
            "select ops.receive_event('flights', %s, %s, %s, %s)",
            [message_id, event.content_digest, Jsonb(event.as_json()), list(event.pipelines)],
        ).fetchone()
    assert row is not None
    return str(row[0])


def flights(settings: Settings, **words: Any) -> PipelineSpec:
    """The reference pipeline, listening under these bounds."""
    spec = get_pipeline(settings.pipelines_dir, "flights")
    return spec.model_copy(update={"webhook": WebhookPolicy(source="flights", **words)})


def asked(connection: psycopg.Connection, run_id: str) -> set[str]:
    """The partitions by day that a run asks for."""
    rows = connection.execute(
        "select resource || '/' || window_name || '@' || revision from ops.run_partitions "
        "where run_id = %s and window_name <> 'snapshot'",
        [run_id],
    ).fetchall()
    return {row[0] for row in rows}

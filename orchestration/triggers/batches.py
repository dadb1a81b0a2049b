"""From waiting messages to runs: bounded batches, in which a partition is asked for once.

Accepting a run and marking the messages that it is for is one transaction, so that a dispatcher may
die anywhere and no message is taken twice or forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import class_row

from orchestration.code import Code
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import RunId
from orchestration.model import TriggerKind
from orchestration.pipelines.spec import PipelineSpec
from orchestration.pipelines.webhook import WebhookPolicy
from orchestration.sql.queries import query
from orchestration.triggers.accept import Window, accept
from orchestration.triggers.events import EventType
from orchestration.triggers.request import RunRequest


@dataclass(frozen=True)
class Message:
    """A message that waits; `event` is what `Event.as_json` made of it."""

    inbox_id: int
    source: str
    message_id: str
    event: dict[str, Any]
    age_s: float

    @property
    def windows(self) -> dict[Window, bool]:
        anew = self.event["type"] == EventType.CORRECTED
        return {(self.event["resource"], window): anew for window in self.event["windows"]}


@dataclass
class Batch:
    """Messages that one run answers; `is_full` when another one would not have fitted."""

    messages: list[Message] = field(default_factory=list)
    windows: dict[Window, bool] = field(default_factory=dict)
    is_full: bool = False

    def is_due(self, policy: WebhookPolicy) -> bool:
        return bool(self.messages) and (
            self.is_full or self.messages[0].age_s >= policy.max_wait_seconds
        )

    def request(self, pipeline: str) -> RunRequest:
        """The run's name follows from the messages; its correlation id is that of the oldest."""
        first, last = self.messages[0], self.messages[-1]
        alone = first is last
        named = f"{first.source}/{first.message_id}"
        return RunRequest(
            pipeline=pipeline,
            days=(),
            trigger_kind=TriggerKind.WEBHOOK if alone else TriggerKind.MICRO_BATCH,
            trigger_key=named if alone else f"inbox/{first.inbox_id}..{last.inbox_id}",
            windows=self.windows,
            correlation_id=named,
        )


@dataclass(frozen=True)
class Taken:
    """A run that was accepted for so many messages."""

    run_id: RunId
    pipeline: str
    messages: int
    partitions: int


def compose(messages: Sequence[Message], policy: WebhookPolicy) -> Batch:
    """The oldest messages that go into one run. A partition that several name counts once, and is
    fetched anew if one of them says that it was corrected."""
    batch = Batch()
    for message in messages:
        merged = dict(batch.windows)
        for window, anew in message.windows.items():
            merged[window] = merged.get(window, False) or anew
        too_many = len(merged) > policy.max_partitions and batch.messages
        if too_many or len(batch.messages) == policy.max_events:
            batch.is_full = True
            break
        batch.messages.append(message)
        batch.windows = merged
    batch.is_full |= len(batch.messages) == policy.max_events
    batch.is_full |= len(batch.windows) >= policy.max_partitions
    return batch


def next_batch(connection: psycopg.Connection, pipeline: str, policy: WebhookPolicy) -> Batch:
    """What the next run would take on; locks the messages until the caller's transaction ends."""
    with connection.cursor(row_factory=class_row(Message)) as cursor:
        waiting = cursor.execute(
            query("inbox_waiting"), {"pipeline": pipeline, "limit": policy.max_events + 1}
        ).fetchall()
    return compose(waiting, policy)


def take_on(
    connection: psycopg.Connection, pipeline: PipelineSpec, code: Code, *, flush: bool = False
) -> Taken | None:
    """Accepts the next run, if one is due; `flush` asks for it whatever the age of its messages.

    The runner's connection in autocommit. A second dispatcher waits, and finds the next messages.
    """
    policy = pipeline.webhook
    if policy is None:
        return None
    with connection.transaction():
        connection.execute(
            "select pg_advisory_xact_lock(hashtextextended('inbox/' || %s, 0))", [pipeline.name]
        )
        batch = next_batch(connection, pipeline.name, policy)
        if not batch.is_due(policy) and not (flush and batch.messages):
            return None
        run = accept(connection, batch.request(pipeline.name), pipeline, code).run
        reach(FaultPoint.DISPATCH_INSIDE_ACCEPTANCE)
        connection.execute(
            "update ops.inbox_work set run_id = %s, taken_at = clock_timestamp() "
            "where pipeline = %s and inbox_id = any(%s)",
            [run.run_id, pipeline.name, [message.inbox_id for message in batch.messages]],
        )
        connection.execute(
            "insert into ops.run_starts (run_id) values (%s) on conflict do nothing", [run.run_id]
        )
    reach(FaultPoint.DISPATCH_AFTER_ACCEPTANCE)
    return Taken(run.run_id, pipeline.name, len(batch.messages), len(batch.windows))

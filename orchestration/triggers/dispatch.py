"""One round of the dispatcher: messages that wait become runs, runs that wait are handed over.

Whatever it is killed at, the next round goes on with what is left.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import psycopg

from orchestration.code import read_code
from orchestration.identity import RunId
from orchestration.pipelines.spec import PipelineSpec
from orchestration.settings import Settings
from orchestration.triggers.batches import Taken, next_batch, take_on
from orchestration.triggers.starters import HERE
from orchestration.triggers.starts import Started, Starter, Waiting, count_waiting, start_waiting

# A sender that repeats a message after that long finds it unknown, and its signature out of date.
_KEEP_DAYS = 30


@dataclass
class Round:
    """What a round did; `here` are runs that the caller now has to execute."""

    taken: list[Taken] = field(default_factory=list)
    started: list[Started] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    runs_waiting: int = 0

    @property
    def here(self) -> list[RunId]:
        return [item.run_id for item in self.started if item.reference == HERE]

    def as_json(self) -> dict[str, Any]:
        return {
            "accepted": [asdict(item) for item in self.taken],
            "started": [asdict(item) for item in self.started],
            "not_started": [asdict(item) for item in self.waiting],
            "runs_waiting": self.runs_waiting,
        }


def dispatch(
    settings: Settings,
    connection: psycopg.Connection,
    pipelines: Mapping[str, PipelineSpec],
    starter: Starter,
    *,
    flush: bool = False,
) -> Round:
    """The runner's connection in autocommit. `flush` waits for no further messages."""
    done = Round()
    for pipeline in pipelines.values():
        if pipeline.webhook is None or not _has_messages(connection, pipeline.name):
            continue
        code = read_code(settings.project_dir, pipeline)
        while taken := take_on(connection, pipeline, code, flush=flush):
            done.taken.append(taken)
    for item in start_waiting(connection, starter):
        match item:
            case Started():
                done.started.append(item)
            case Waiting():
                done.waiting.append(item)
    done.runs_waiting = count_waiting(connection)
    connection.execute("select ops.forget_events(%s)", [_KEEP_DAYS])
    return done


@dataclass(frozen=True)
class Outlook:
    """What a round would take on first for a pipeline."""

    pipeline: str
    messages: int
    partitions: list[str]
    due: bool


def look_ahead(
    connection: psycopg.Connection, pipelines: Mapping[str, PipelineSpec]
) -> list[Outlook]:
    """Changes nothing; the runner's connection in autocommit."""
    found = []
    for pipeline in pipelines.values():
        if pipeline.webhook is None:
            continue
        with connection.transaction():
            batch = next_batch(connection, pipeline.name, pipeline.webhook)
        if batch.messages:
            windows = [f"{resource}/{window}" for resource, window in sorted(batch.windows)]
            found.append(
                Outlook(pipeline.name, len(batch.messages), windows, batch.is_due(pipeline.webhook))
            )
    return found


def _has_messages(connection: psycopg.Connection, pipeline: str) -> bool:
    row = connection.execute(
        "select exists (select from ops.inbox_work where pipeline = %s and run_id is null)",
        [pipeline],
    ).fetchone()
    return bool(row and row[0])

"""Many days, loaded a chunk at a time beside what runs routinely, and published only when asked.

A chunk is a run of its own that ends after its partitions are loaded: nothing that it loads is
accepted, so no other run builds on it. Publishing is one more run over all days, which finds them
loaded. Chunks are named by their days, so the same backfill finds what it had finished.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from ingestion.partitions import Partition
from orchestration.code import Code
from orchestration.identity import RunId, run_id
from orchestration.model import StageName, TriggerKind
from orchestration.pipelines.spec import PipelineSpec
from orchestration.sql.queries import query
from orchestration.triggers.accept import plan_revisions
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.artifacts import find_adopted


@dataclass(frozen=True)
class Chunk:
    """One run: what it asks for, how much of that is there, and whether it has ended well."""

    request: RunRequest
    run_id: RunId
    partitions: int
    loaded: int
    is_done: bool

    @property
    def name(self) -> str:
        return _span(self.request.days)

    def as_json(self) -> dict[str, Any]:
        return {
            "days": self.name,
            "run_id": self.run_id,
            "partitions": self.partitions,
            "loaded": self.loaded,
            "done": self.is_done,
        }


def load_request(pipeline: str, days: Sequence[str], as_of: datetime | None = None) -> RunRequest:
    """Loads the days and stops."""
    return RunRequest(
        pipeline=pipeline,
        days=days,
        trigger_kind=TriggerKind.BACKFILL,
        trigger_key=f"{_span(days)}+load",
        publish=False,
        stop_after=StageName.EXTRACT,
        as_of=as_of,
    )


def publish_request(
    pipeline: str, days: Sequence[str], as_of: datetime | None = None
) -> RunRequest:
    """Judges, builds, gates and publishes the days, which are loaded by then."""
    return RunRequest(
        pipeline=pipeline,
        days=days,
        trigger_kind=TriggerKind.BACKFILL,
        trigger_key=f"{_span(days)}+publish",
        as_of=as_of,
    )


def plan_backfill(
    connection: psycopg.Connection,
    pipeline: PipelineSpec,
    code: Code,
    days: Sequence[str],
    size: int,
    as_of: datetime | None = None,
) -> list[Chunk]:
    """The chunks of at most `size` days, as the database stands now; changes nothing."""
    chunks = []
    for first in range(0, len(days), size):
        request = load_request(pipeline.name, days[first : first + size], as_of)
        chunks.append(_look_up(connection, pipeline, code, request))
    return chunks


def slot_names(pipeline: str, concurrency: int) -> list[str]:
    """Leases of which a chunk needs one: so many chunks of the pipeline at once, on any machine."""
    return [f"backfill/{pipeline}/{number}" for number in range(concurrency)]


def routine_run(connection: psycopg.Connection, pipeline: str) -> str | None:
    """A run that is no backfill and that somebody works on, or is about to: chunks wait for it."""
    row = connection.execute(query("runs_routine"), [pipeline]).fetchone()
    return str(row[0]) if row else None


def _look_up(
    connection: psycopg.Connection, pipeline: PipelineSpec, code: Code, request: RunRequest
) -> Chunk:
    key = str(request.trigger_key)
    identity = run_id(pipeline.name, request.trigger_kind, key, code.code_id)
    revisions = plan_revisions(connection, request, pipeline, key)
    wanted = [
        str(Partition(resource, window, revision))
        for (resource, window), revision in revisions.items()
    ]
    loaded = find_adopted(connection, pipeline.name, wanted)
    # What an earlier code loaded counts as well; what was dropped since does not.
    return Chunk(request, identity, len(wanted), len(loaded), len(loaded) == len(wanted))


def _span(days: Sequence[str]) -> str:
    return days[0] if len(days) == 1 else f"{days[0]}..{days[-1]}"

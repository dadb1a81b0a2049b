"""The object that `sluice run` prints last: what was asked and what became of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from orchestration.model import Outcome, PartitionState, Run, StageName, StageStatus
from orchestration.runs.ended import Ended, StageLine, failure_as_json
from orchestration.runs.state import read_partitions
from orchestration.warehouse.quarantine import CorrectionNews, news_of_run


@dataclass(frozen=True)
class RunSummary:
    """`as_json` is the documented object; `exit_code` names the kind of failure."""

    run: Run
    ended: Ended
    lines: list[StageLine]
    partitions: dict[str, int]
    records: dict[str, int]
    duration_s: float
    corrections: Sequence[CorrectionNews] = ()
    rebuilt: list[dict[str, Any]] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        return self.ended.failure.exit_code if self.ended.failure else 0

    def as_json(self) -> dict[str, Any]:
        return {
            "run_id": self.run.run_id,
            "pipeline": self.run.pipeline,
            "outcome": self.ended.outcome,
            "failure": failure_as_json(self.ended),
            "version": self.ended.version_id,
            "partitions": self.partitions,
            "records": self.records,
            "corrections": [
                {
                    "record": f"record-{news.record_id}",
                    "event": news.event,
                    "message": news.detail,
                }
                for news in self.corrections
            ],
            "rebuilt": self.rebuilt,
            "stages": [
                {
                    "stage": line.stage,
                    "status": line.status,
                    "attempts": line.attempts,
                    "duration_s": line.duration_s,
                    "input_ref": line.input_ref,
                    "output_ref": line.output_ref,
                }
                for line in self.lines
            ],
            "duration_s": round(self.duration_s, 3),
        }


def summarize(
    connection: psycopg.Connection,
    run: Run,
    ended: Ended,
    lines: list[StageLine],
    *,
    repeats_finished: bool,
    duration_s: float,
) -> RunSummary:
    """Counts from the run's own rows. A repeat of a finished run extracted nothing."""
    states = [item.state for item in read_partitions(connection, run.run_id)]
    extracted = states.count(PartitionState.EXTRACTED)
    reused = states.count(PartitionState.REUSED)
    partitions = {
        "requested": len(states),
        "extracted": 0 if repeats_finished else extracted,
        "reused": reused + extracted if repeats_finished else reused,
        "quarantined": states.count(PartitionState.QUARANTINED),
    }
    row = connection.execute(
        "select coalesce(sum(a.fetched), 0), coalesce(sum(a.loaded), 0), "
        "coalesce(sum(a.quarantined), 0) from ops.run_partitions p "
        "join ops.artifacts a using (artifact_id) where p.run_id = %s",
        [run.run_id],
    ).fetchone()
    fetched, loaded, quarantined = (int(value) for value in row) if row else (0, 0, 0)
    records = {"fetched": fetched, "loaded": loaded, "quarantined": quarantined}
    corrections = [] if repeats_finished else news_of_run(connection, run.run_id)
    rebuilt = [] if repeats_finished else _rebuilt(connection, run)
    return RunSummary(run, ended, lines, partitions, records, duration_s, corrections, rebuilt)


def stored_lines(connection: psycopg.Connection, run_id: str) -> list[StageLine]:
    """The stages of a run that several processes shared, as each one wrote it down."""
    rows = connection.execute(
        "select stage, status, attempts, "
        "round(extract(epoch from coalesce(finished_at, clock_timestamp()) - started_at), 3)::float8, "
        "input_ref, output_ref from ops.run_stages where run_id = %s order by position",
        [run_id],
    ).fetchall()
    return [StageLine(StageName(row[0]), StageStatus(row[1]), *row[2:]) for row in rows]


def failed_summary(
    run_id: str | None, pipeline: str | None, failure: dict[str, Any] | None
) -> dict[str, Any]:
    """The same object for a run that failed elsewhere, of which no stage ran here."""
    return {
        "run_id": run_id,
        "pipeline": pipeline,
        "outcome": Outcome.FAILED,
        "failure": failure,
        "version": None,
        "partitions": None,
        "records": None,
        "stages": [],
        "duration_s": 0.0,
    }


def _rebuilt(connection: psycopg.Connection, run: Run) -> list[dict[str, Any]]:
    """Partitions that this run built again although readers had them, by model, and why."""
    row = connection.execute(
        "select result -> 'rebuilt' from ops.checkpoints where run_id = %s and stage = 'transform' "
        "order by finished_at desc nulls last limit 1",
        [run.run_id],
    ).fetchone()
    return list(row[0] or []) if row else []

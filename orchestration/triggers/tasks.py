"""What single tasks of a workflow platform do with a run, whatever the platform is.

Answers are JSON. A failure that may pass by itself is raised, so that the platform repeats the task;
any other is in the answer.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ingestion.partitions import day_windows
from orchestration.errors import Busy
from orchestration.failures import classify
from orchestration.identity import RunId
from orchestration.logs import get_logger
from orchestration.model import Run, StageName
from orchestration.pipelines.files import get_pipeline
from orchestration.runs.chunks import extract_chunk
from orchestration.runs.messages import failure_of
from orchestration.runs.runner import execute_stage
from orchestration.runs.state import get_run
from orchestration.runs.summary import RunSummary, failed_summary
from orchestration.runs.worker import Worker
from orchestration.settings import Settings
from orchestration.stages.base import Progress
from orchestration.triggers.request import RunRequest
from orchestration.triggers.schedule import scheduled_request
from orchestration.triggers.start import accept_request, under_this_code, worker_for
from orchestration.warehouse.connections import Role, Warehouse


class CodeChanged(Busy):
    """The code was replaced between two tasks of a run; whoever has the run begins again with it."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"the code changed while run {run_id} was under way; run the same command again",
            code="code_changed",
        )


@dataclass(frozen=True)
class Services:
    """What every task starts from."""

    settings: Settings
    warehouse: Warehouse
    progress: Progress

    def request(self, pipeline: str, partitions: str) -> Run:
        """The run of these days (`2013-01-01..2013-01-31`), or, without, of those that are due."""
        if partitions:
            request = RunRequest(pipeline=pipeline, days=day_windows(partitions))
        else:
            spec = get_pipeline(self.settings.pipelines_dir, pipeline)
            request = scheduled_request(spec, datetime.now(UTC))
        return accept_request(self.settings, self.warehouse, request)

    def find(self, run_id: str) -> Run:
        """The run, or what its request is under this code."""
        return under_this_code(self.settings, self.warehouse, self._run(run_id))

    def worker(self, run: Run) -> Worker:
        """Raises `CodeChanged` when the run belongs to another state of the code."""
        worker = worker_for(self.settings, self.warehouse, run, self.progress)
        if worker.code.code_id != run.code_id:
            raise CodeChanged(run.run_id)
        return worker

    def worker_on(self, run_id: str) -> Worker:
        return self.worker(self._run(run_id))

    def _run(self, run_id: str) -> Run:
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            return get_run(connection, run_id)


def pass_stage(services: Services, run_id: str, stage: StageName, giver: str) -> dict[str, Any]:
    """One stage's work: `{"next": stage}`, or the run's result when it has ended.

    `{"code_changed": true}`: the run is of another state of the code, so nothing was done.
    """
    try:
        worker = services.worker_on(run_id)
    except CodeChanged:
        return {"code_changed": True}
    ended = execute_stage(worker, RunId(run_id), stage, giver)
    return result_of(ended) if isinstance(ended, RunSummary) else {"next": ended}


def pass_chunk(services: Services, run_id: str, partitions: list[str]) -> dict[str, Any]:
    """Extracts some of a run's partitions: `{"failure": null}`, or what is permanently wrong."""
    try:
        failure = extract_chunk(services.worker_on(run_id), RunId(run_id), set(partitions))
    except CodeChanged as changed:
        return {"failure": failure_of(changed, StageName.EXTRACT)}
    if failure is None:
        return {"failure": None}
    if failure.transient:
        raise failure
    return {"failure": failure_of(failure, StageName.EXTRACT)}


def result_of(summary: RunSummary) -> dict[str, Any]:
    """What `sluice run --json` prints; raises the run's failure if it is transient."""
    failure = summary.ended.failure
    if failure is not None and failure.transient:
        raise failure
    return summary.as_json()


def settle(error: Exception, run_id: str | None, pipeline: str | None) -> dict[str, Any]:
    """The answer of a task that `error` ended. Raises it as a `SluiceError` if it is transient."""
    failure = classify(error)
    get_logger().error("task failed", error_code=failure.code, error_class=type(error).__name__)
    if failure.transient:
        raise failure from None
    return failed_summary(run_id, pipeline, failure_of(failure, None))

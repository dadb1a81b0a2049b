"""A run brought to its end by tasks of a workflow platform: all in one, or a task for each stage.

Whoever has the run holds its lease, or stands by while the task of a stage has taken it. When it is
killed and started again, it finds what the tasks have finished, and waits for the one that still works.
"""

import asyncio
from typing import Any, Protocol

from orchestration.errors import Busy
from orchestration.identity import RunId
from orchestration.model import Run, StageName
from orchestration.runs.chunks import due_partitions, in_chunks
from orchestration.runs.runner import drive_run, take_run
from orchestration.runs.standby import Standby
from orchestration.runs.state import get_run, read_partitions
from orchestration.runs.summary import failed_summary
from orchestration.runs.worker import Worker
from orchestration.triggers.tasks import Services, result_of
from orchestration.warehouse.connections import Role

# Once through the stages, and again for each time that others changed what an earlier one is about.
_MOST_PASSES = 30


class TaskFailed(Exception):
    """The platform repeats a task no more, or could not say what became of it."""


class Tasks(Protocol):
    """Runs `pass_stage` and `pass_chunk` elsewhere and waits for the answer. Raises `TaskFailed`."""

    async def run_stage(self, run: Run, stage: StageName, giver: str) -> dict[str, Any]: ...

    async def run_chunk(self, run: Run, partitions: list[str]) -> dict[str, Any]: ...


async def bring_to_end(services: Services, run: Run, tasks: Tasks) -> dict[str, Any]:
    """The result of the run. Raises `Busy`, `Cancelled`, and the run's failure if it is transient."""
    worker = services.worker(run)
    lease = take_run(worker, run.run_id)
    if _count(worker, run.run_id) <= worker.pipeline.tasks.one_task_partitions:
        return result_of(drive_run(worker, run.run_id, lease))
    stage = StageName.INITIALIZE
    with Standby(worker.warehouse, lease) as standby:
        for _ in range(_MOST_PASSES):
            if stage is StageName.EXTRACT:
                await _extract_chunks(worker, run, tasks)
            try:
                answer = await tasks.run_stage(run, stage, standby.giver)
            except TaskFailed as failed:
                return _given_up(worker, run.run_id, f"{stage} of run {run.run_id}: {failed}")
            standby.take_up()
            if "code_changed" in answer:
                break
            if "next" not in answer:
                return answer
            stage = StageName(answer["next"])
    raise Busy(f"what run {run.run_id} is about was changed meanwhile; run the same command again")


async def _extract_chunks(worker: Worker, run: Run, tasks: Tasks) -> None:
    """Several at once. What fails, or is not done, is left to the task of the stage."""
    policy = worker.pipeline.tasks
    with worker.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        waiting = in_chunks(due_partitions(connection, run), policy.partitions_per_task)
    if len(waiting) < 2:
        return

    async def extract_some() -> None:
        while waiting:
            try:
                answer = await tasks.run_chunk(run, waiting.pop(0))
            except TaskFailed:
                continue
            if answer["failure"]:
                waiting.clear()

    await asyncio.gather(*(extract_some() for _ in range(policy.extract_tasks)))


def _given_up(worker: Worker, run_id: RunId, reason: str) -> dict[str, Any]:
    """How the failed task ended the run. Raises `Busy` when it did not come to that."""
    with worker.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        run = get_run(connection, run_id)
    if run.failure is None or run.status not in {"failed", "cancelled"}:
        raise Busy(f"{reason}; run the same command again")
    return failed_summary(run.run_id, run.pipeline, run.failure)


def _count(worker: Worker, run_id: RunId) -> int:
    with worker.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        return len(read_partitions(connection, run_id))

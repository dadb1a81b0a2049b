"""A run's extraction in parts: which partitions are due, and extracting some of them beside others.

Whoever extracts a part works under the leases of its partitions alone, as any extraction does; the
run's own rows are left to the pass for the stage, which finds the parts finished.
"""

from collections.abc import Collection

import psycopg

from orchestration.errors import SluiceError
from orchestration.identity import RunId, idempotency_key
from orchestration.model import Run, StageName
from orchestration.runs.ended import out_of_time
from orchestration.runs.stage_runner import StageRunner
from orchestration.runs.state import read_partitions
from orchestration.runs.worker import Worker
from orchestration.stages.extract import ExtractStage


def due_partitions(connection: psycopg.Connection, run: Run) -> list[str]:
    """The run's partitions that nobody has extracted yet, by resource and window."""
    names = [str(item.partition) for item in read_partitions(connection, run.run_id)]
    keys = {name: idempotency_key(run.pipeline, name, StageName.EXTRACT.value) for name in names}
    rows = connection.execute(
        "select idempotency_key from ops.checkpoints "
        "where idempotency_key = any(%s) and status = 'succeeded'",
        [list(keys.values())],
    ).fetchall()
    finished = {key for (key,) in rows}
    return [name for name in names if keys[name] not in finished]


def in_chunks(partitions: list[str], size: int) -> list[list[str]]:
    """As few chunks of at most `size` as there may be, none much smaller than another."""
    count = -(-len(partitions) // size)
    return [partitions[number::count] for number in range(count)]


def extract_chunk(worker: Worker, run_id: RunId, partitions: Collection[str]) -> SluiceError | None:
    """Extracts these partitions of the run; the failure that it ended with, if any.

    What is finished keeps its checkpoint. Raises `Busy` and `LeaseLost`.
    """
    with worker.begin(run_id, None) as (context, heartbeat):
        context.partitions = [
            item
            for item in read_partitions(context.connection, run_id)
            if str(item.partition) in partitions
        ]
        report = StageRunner(context, ExtractStage(), {}, heartbeat).run()
    if report.error is not None:
        return report.error
    return out_of_time(StageName.EXTRACT, len(report.remaining)) if report.remaining else None

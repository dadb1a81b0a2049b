"""One chunk of a backfill in a process of its own: an order comes on standard input, an answer goes out.

Loading keeps state in its process, so that two chunks at once need two of them. If whoever gave the
order dies, the chunk ends well and nobody waits for it.
"""

import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from orchestration.cli.output import print_json, say
from orchestration.cli.progress import LoggedProgress
from orchestration.cli.session import prepare_logs, read_settings, start_services
from orchestration.errors import Busy, SluiceError
from orchestration.failures import classify
from orchestration.runs.leases import Heartbeat, release, try_acquire
from orchestration.runs.messages import failure_of
from orchestration.runs.summary import RunSummary
from orchestration.settings import Settings
from orchestration.stages.base import Progress
from orchestration.triggers.backfill import load_request, routine_run, slot_names
from orchestration.triggers.request import RunRequest
from orchestration.triggers.start import run_request
from orchestration.warehouse.connections import Role, Warehouse

_LOOK_S = 2.0


def order(pipeline: str, days: Sequence[str], as_of: datetime | None, concurrency: int) -> str:
    """What a chunk's process is told to do."""
    return json.dumps(
        {
            "pipeline": pipeline,
            "days": list(days),
            "as_of": as_of.isoformat() if as_of else None,
            "concurrency": concurrency,
        }
    )


def main() -> None:
    """Prints {"loaded", "done", "failure", "exit_code"}; the failures of the chunk are in it."""
    told = json.loads(sys.stdin.read())
    as_of = datetime.fromisoformat(told["as_of"]) if told["as_of"] else None
    request = load_request(told["pipeline"], told["days"], as_of)
    settings = read_settings()
    prepare_logs(settings)
    try:
        warehouse = start_services(settings, say)
        summary = _load(settings, warehouse, request, told["concurrency"], LoggedProgress())
    except Exception as error:  # noqa: BLE001 - a traceback could show row values; the class names it
        failure = classify(error)
        print_json(_failed(failure))
        return
    answer = summary.as_json()
    print_json(
        {
            "loaded": answer["partitions"]["extracted"] + answer["partitions"]["reused"],
            "done": summary.exit_code == 0,
            "failure": answer["failure"],
            "exit_code": summary.exit_code,
        }
    )


def yield_to_routine(warehouse: Warehouse, pipeline: str, progress: Progress) -> None:
    """Returns when no other run of the pipeline is under way."""
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        while (run := routine_run(connection, pipeline)) is not None:
            progress.update("wait", f"run {run} goes first")
            time.sleep(_LOOK_S)


def _load(
    settings: Settings,
    warehouse: Warehouse,
    request: RunRequest,
    concurrency: int,
    progress: Progress,
) -> RunSummary:
    """Under one of the backfill's leases, after routine runs."""
    while True:
        yield_to_routine(warehouse, request.pipeline, progress)
        with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            names = slot_names(request.pipeline, concurrency)
            slot = next(filter(None, (try_acquire(connection, name) for name in names)), None)
            if slot is None:
                progress.update("wait", "other backfills of the pipeline have all places")
                time.sleep(_LOOK_S)
                continue
            try:
                with Heartbeat(warehouse) as heartbeat, heartbeat.keep(slot):
                    return run_request(settings, warehouse, request, progress)
            except Busy as busy:
                if busy.code != "budget_exhausted":
                    raise
                # What arrived is kept; the next turn loads the rest.
            finally:
                release(connection, slot)


def _failed(error: SluiceError) -> dict[str, Any]:
    return {
        "loaded": 0,
        "done": False,
        "failure": failure_of(error, None),
        "exit_code": error.exit_code,
    }


if __name__ == "__main__":
    main()

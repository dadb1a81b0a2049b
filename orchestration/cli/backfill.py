"""`sluice backfill`: loads many days a chunk at a time, and publishes them when asked to."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import Any

from orchestration.cli.backfill_chunk import order, yield_to_routine
from orchestration.cli.output import print_json, print_rows, say
from orchestration.cli.progress import choose_progress
from orchestration.cli.recover import worst
from orchestration.cli.run import drive, parse_days, parse_moment, refuse_open_days
from orchestration.cli.session import prepare_logs, read_settings, start_services
from orchestration.code import read_code
from orchestration.errors import EXIT_BUSY
from orchestration.pipelines.files import get_pipeline
from orchestration.stages.base import Progress
from orchestration.triggers.backfill import Chunk, plan_backfill, publish_request
from orchestration.warehouse.connections import Role

_LOOK_S = 2.0
Answer = dict[str, Any]


def backfill(
    *,
    pipeline_name: str,
    partitions: str,
    chunk: int,
    concurrency: int,
    publish: bool,
    as_of: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    settings = read_settings()
    pipeline = get_pipeline(settings.pipelines_dir, pipeline_name)
    moment = parse_moment(as_of)
    days = parse_days(partitions)
    refuse_open_days(pipeline, days, moment or datetime.now(UTC))
    prepare_logs(settings)
    warehouse = start_services(settings, say)
    code = read_code(settings.project_dir, pipeline)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        plan = plan_backfill(connection, pipeline, code, days, chunk, moment)
    if dry_run:
        _print(plan, {}, None, as_json=as_json)
        return
    todo = [item for item in plan if not item.is_done]
    with choose_progress() as progress:
        answers = _load(todo, concurrency, moment, progress)
        codes = [answer.pop("exit_code") for answer in answers.values()]
        if publish and worst(codes) == 0:
            yield_to_routine(warehouse, pipeline.name, progress)
    published = None
    if publish and worst(codes) == 0:
        summary = drive(settings, warehouse, publish_request(pipeline.name, days, moment))
        published, codes = summary.as_json(), [*codes, summary.exit_code]
    _print(plan, answers, published, as_json=as_json)
    raise SystemExit(worst(codes))


def _load(
    todo: Sequence[Chunk], concurrency: int, as_of: datetime | None, progress: Progress
) -> dict[str, Answer]:
    """Days → what became of the chunk. One that fails keeps no other from being loaded."""
    began, answers = time.monotonic(), dict[str, Answer]()
    with ThreadPoolExecutor(concurrency) as pool:
        waiting: dict[Future[Answer], Chunk] = {
            pool.submit(_load_chunk, chunk, as_of, concurrency): chunk for chunk in todo
        }
        while waiting:
            progress.update(
                "backfill", _estimate(began, len(answers), len(todo)), len(answers), len(todo)
            )
            for done in wait(waiting, timeout=_LOOK_S, return_when=FIRST_COMPLETED).done:
                answers[waiting.pop(done).name] = done.result()
    return answers


def _load_chunk(chunk: Chunk, as_of: datetime | None, concurrency: int) -> Answer:
    done = subprocess.run(
        [sys.executable, "-m", "orchestration.cli.backfill_chunk"],
        input=order(chunk.request.pipeline, chunk.request.days, as_of, concurrency),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    try:
        answer: Answer = json.loads(done.stdout)
    except ValueError:
        message = f"the process that loaded {chunk.name} died; repeat the command"
        failure = {"kind": "internal", "error_code": "worker_lost", "message": message}
        return {"loaded": 0, "done": False, "failure": failure, "exit_code": EXIT_BUSY}
    return answer


def _estimate(began: float, done: int, total: int) -> str:
    if not done:
        return "loading"
    left = (time.monotonic() - began) / done * (total - done)
    return f"about {left / 60:.0f} min left" if left >= 120 else f"about {left:.0f} s left"


def _print(
    plan: Sequence[Chunk],
    answers: dict[str, Answer],
    published: Answer | None,
    *,
    as_json: bool,
) -> None:
    rows = [chunk.as_json() | {"failure": None} | answers.get(chunk.name, {}) for chunk in plan]
    if as_json:
        print_json({"chunks": rows, "published": published})
        return
    columns = ["days", "run_id", "partitions", "loaded", "done"]
    print_rows("chunks", columns, rows, "there is nothing to load")
    for row in rows:
        if row["failure"]:
            say(f"{row['days']}: {row['failure']['message']}")
    if published is not None:
        say(f"{published['outcome']}: version {published['version']}")
    elif all(row["done"] for row in rows):
        say("everything is loaded; nothing of it is published until you repeat this with --publish")

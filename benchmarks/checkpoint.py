"""What durability costs: one stage of Sluice beside one durable step of DBOS, on one server.

    make benchmark-checkpoint
    python benchmarks/checkpoint.py [--iterations 300] [--rounds 5] [--json]

Needs this project and `requirements-benchmark.txt` (DBOS) in one virtual environment, which should not
be the one you develop in. Both write to an embedded server made for the occasion, fsync on, a database
each, in one process and thread, in turn. A stage is all that the stage runner does for one partition
that is there already: find no checkpoint, take the lease, begin the attempt, validate the artifact in
the database by count and checksum, record success, give the lease back. A step of DBOS looks for its
result, does nothing, records it. `found` is the second time: DBOS finds the step's result, Sluice
the checkpoint, and validates the artifact again. `with row` adds the stage's line in the run's own rows.
Figures, not a verdict: always ends with exit code 0 unless something broke.
"""

import argparse
import dataclasses
import json
import logging
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from dbos import DBOS, SetWorkflowID

from ingestion.artifacts import measure_artifacts
from ingestion.partitions import Partition
from ingestion.sources import get_resource
from orchestration.code import read_code
from orchestration.identity import RunId
from orchestration.logs import configure_logs
from orchestration.model import (
    PartitionState,
    Run,
    RunPartition,
    StageName,
    StageStatus,
    TriggerKind,
)
from orchestration.pipelines.files import get_pipeline
from orchestration.runs.budget import Budget
from orchestration.runs.checkpoints import read_checkpoints
from orchestration.runs.leases import Heartbeat, acquire
from orchestration.runs.stage_runner import StageRunner
from orchestration.runs.state import finish_stage, start_stage
from orchestration.settings import Settings
from orchestration.stages.base import Claim, StageContext, UnitDone, UnitResult
from orchestration.stages.extract import ExtractStage
from orchestration.warehouse.artifacts import find_artifacts, intact_artifacts
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.fence import run_lease
from orchestration.warehouse.setup import set_up

WANTED = {"stage": 2.5, "found": 2.0}
ROWS = 216
RESOURCE = get_resource("flights.weather")
ARTIFACT = "a_bench"
RUN = RunId("r_0123456789abcdef")

_ROWS = """
insert into staging.flights__weather (origin, year, month, day, hour, temp, dewp, humid, wind_dir,
    wind_speed, wind_gust, precip, pressure, visib, time_hour, _artifact_id, _partition, _run_id,
    _source_ref)
select (array['EWR', 'JFK', 'LGA'])[1 + n %% 3], 2013, 1, 1 + n / 72, n / 3 %% 24, 30 + n %% 40, 20.12,
    50.5 + n %% 30, n %% 36 * 10, 9.20624, null, 0, 1012.5, 10,
    timestamptz '2013-01-01 05:00Z' + n / 3 * interval '1 hour', %(artifact)s, 'p', %(run)s,
    '/v1/weather?date=2013-01-01&page=1#' || n
from generate_series(0, %(rows)s - 1) n
"""
_RUN = """
insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, as_of,
    correlation_id, workflow_id, status)
values (%s, 'flights', 'manual', 'benchmark', 'c', '{}', now(), 'c', 'w', 'running')
"""
_ADOPTED = """
insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, partition, run_id,
    lease_name, fence, state, fetched, loaded, quarantined, checksum, schema_version, fetched_at,
    adopted_at)
values (%(artifact)s, 'flights', 'flights.weather', '2013-01-01', 1, 'p', %(run)s, 'l', 1, 'adopted',
    %(rows)s, %(rows)s, 0, %(checksum)s, '1', now(), now())
"""


class AdoptedStage(ExtractStage):
    """Extraction whose partitions were adopted before: what is left is the frame around the work."""

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        [artifact] = find_artifacts(context.connection, [ARTIFACT]).values()
        assert intact_artifacts(context.sessions.get(Role.EXTRACTOR), [artifact]) == {ARTIFACT}
        for claim in claims:
            yield UnitDone(
                claim.unit, output_ref=artifact.artifact_id, checksum=artifact.checksum,
                result={"fetched": ROWS, "loaded": ROWS, "quarantined": 0},
            )  # fmt: skip


class Silent:
    def update(self, *_: Any, **__: Any) -> None:
        """Shows nothing."""


class Sluice:
    """A run in the middle of its stages, and two ways to measure one of them."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        set_up(warehouse)
        facts: dict[str, Any] = {"artifact": ARTIFACT, "run": RUN, "rows": ROWS}
        with warehouse.connect(autocommit=True) as owner:
            owner.execute(_ROWS, facts)
            owner.execute("analyze staging.flights__weather")
            checksum = measure_artifacts(owner, RESOURCE, [ARTIFACT])[ARTIFACT].checksum
            owner.execute(_ADOPTED, facts | {"checksum": checksum})
            owner.execute(_RUN, [RUN])
        settings = Settings(home=folder)
        pipeline = get_pipeline(settings.pipelines_dir, "flights")
        connection = warehouse.connect(Role.RUNNER, autocommit=True)
        lease = acquire(connection, run_lease(RUN), wait_s=0)
        self.heartbeat = Heartbeat(warehouse)
        self.context = StageContext(
            settings=settings,
            warehouse=warehouse,
            pipeline=pipeline,
            run=Run(
                run_id=RUN, pipeline="flights", trigger_kind=TriggerKind.MANUAL,
                trigger_key="benchmark", code_id="c", code_commit=None, code_dirty=None,
                publish=False, as_of=datetime.now(UTC), correlation_id="c", workflow_id="w",
                status="running", outcome=None, version_id=None,
            ),
            code=read_code(settings.project_dir, pipeline),
            connection=connection,
            run_lease=lease,
            progress=Silent(),
            check_leases=self.heartbeat.check,
            read_checkpoints=lambda units: read_checkpoints(connection, units),
            budget=Budget(0),
            partitions=[],
            work_dir=folder,
        )  # fmt: skip

    def stage(self, number: int) -> None:
        """One stage over one partition: done the first time, found the second time."""
        partition = Partition("flights.weather", "2013-01-01", number + 1)
        self.context.partitions = [RunPartition(partition, PartitionState.REQUESTED, None)]
        runner = StageRunner(
            self.context, AdoptedStage(), {self.context.run_lease.name: self.context.run_lease},
            self.heartbeat,
        )  # fmt: skip
        report = runner.run()
        assert len(report.finished) == 1, report

    def stage_with_row(self, number: int) -> None:
        """The same with its line in ops.run_stages, begun and ended."""
        lease = self.context.run_lease
        start_stage(self.context.connection, RUN, StageName.EXTRACT, 1, lease)
        self.stage(number)
        finish_stage(
            self.context.connection, RUN, StageName.EXTRACT, lease, StageStatus.SUCCEEDED,
            attempts=1, input_ref="p", output_ref=ARTIFACT,
        )  # fmt: skip


@DBOS.step()
def durable_step(number: int) -> dict[str, Any]:
    """The smallest result that says as much as ours; nothing is done or validated."""
    EXECUTED.append(number)
    return {"artifact": ARTIFACT, "rows": ROWS, "number": number}


EXECUTED: list[int] = []
TIMES: dict[str, list[float]] = {}
TURN: Callable[[int], None] | None = None


@DBOS.workflow()
def alternate(first: int, count: int) -> None:
    """`count` turns of one step and whatever stands beside it."""
    for number in range(first, first + count):
        clock("dbos", lambda number=number: durable_step(number))
        assert TURN is not None
        TURN(number)


def clock(name: str, action: Callable[[], Any]) -> None:
    began = time.perf_counter()
    action()
    TIMES.setdefault(name, []).append((time.perf_counter() - began) * 1000)


@dataclass(frozen=True)
class Cost:
    """Milliseconds."""

    p50: float
    p99: float


def cost(times: list[float]) -> Cost:
    ordered = sorted(times)
    return Cost(
        statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    )


def measure_round(sluice: Sluice, number: int, iterations: int) -> dict[str, dict[str, Cost]]:
    """Makes `iterations` steps and stages in turn, then finds each of them."""
    global TURN  # noqa: PLW0603 - a workflow's arguments must be JSON
    first = number * 2 * iterations
    costs = {}
    name = f"round-{number}"

    def turn(item: int) -> None:
        clock("sluice", lambda: sluice.stage(item))
        clock("with row", lambda: sluice.stage_with_row(item + iterations))

    def find(item: int) -> None:
        clock("sluice", lambda: sluice.stage(item))

    for what, beside in {"stage": turn, "found": find}.items():
        TURN = beside
        TIMES.clear()
        before = len(EXECUTED)
        if what == "stage":
            with SetWorkflowID(name):
                alternate(first, iterations)
        else:
            DBOS.fork_workflow(name, iterations + 1).get_result()
        assert len(EXECUTED) - before == (iterations if what == "stage" else 0)
        costs[what] = {way: cost(times) for way, times in TIMES.items()}
    return costs


def run(iterations: int, rounds: int) -> list[dict[str, dict[str, Cost]]]:
    folder = Path(tempfile.mkdtemp(prefix="slb"))
    folder.chmod(0o755)
    server = EmbeddedServer(folder)
    server.start()
    try:
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute("create database dbos owner sluice_owner")
        DBOS(
            config={
                "name": "benchmark",
                "system_database_url": server.url(database="dbos"),
                "log_level": "ERROR",
            }
        )
        DBOS.launch()
        sluice = Sluice(Warehouse(server.url()), folder)
        with sluice.heartbeat, sluice.heartbeat.keep(sluice.context.run_lease):
            measure_round(sluice, 0, min(iterations, 50))
            measured = [
                measure_round(sluice, number, iterations) for number in range(1, rounds + 1)
            ]
        sluice.context.connection.close()
        DBOS.destroy()
        return measured
    finally:
        server.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--iterations", type=int, default=300, help="of each, a round (default 300)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds after a warm-up (default 5)")
    parser.add_argument("--json", action="store_true", help="print one object")
    arguments = parser.parse_args()
    configure_logs("CRITICAL", quiet_stderr=True)
    logging.disable(logging.WARNING)
    measured = run(arguments.iterations, arguments.rounds)
    lines = []
    for what in measured[0]:
        for way in measured[0][what]:
            p50, p99, ratio = (
                statistics.median(figures)
                for figures in zip(
                    *(
                        (
                            costs[what][way].p50,
                            costs[what][way].p99,
                            costs[what][way].p50 / costs[what]["dbos"].p50,
                        )
                        for costs in measured
                    ),
                    strict=True,
                )
            )
            lines.append(
                {"what": what, "way": way, "p50_ms": p50, "p99_ms": p99, "p50_to_dbos": ratio}
            )
    if arguments.json:
        facts = {"iterations": arguments.iterations, "rounds": arguments.rounds, "wanted": WANTED}
        each = [
            {
                what: {way: dataclasses.asdict(c) for way, c in ways.items()}
                for what, ways in m.items()
            }
            for m in measured
        ]
        print(json.dumps({"medians": lines, "by_round": each, **facts}))
    else:
        print(f"{'':<8}{'':<10}{'p50 ms':>9}{'p99 ms':>9}{'x DBOS':>9}")
        for line in lines:
            print(
                f"{line['what']:<8}{line['way']:<10}{line['p50_ms']:>9.2f}{line['p99_ms']:>9.2f}"
                f"{line['p50_to_dbos']:>9.2f}"
            )
        wanted = ", ".join(f"{what} at most {limit}" for what, limit in WANTED.items())
        print(f"wanted of p50: {wanted}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

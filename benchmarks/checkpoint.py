"""What durability costs: one stage of Sluice beside one durable step of DBOS, on one server.

    make benchmark-checkpoint
    python benchmarks/checkpoint.py [--iterations 300] [--rounds 5] [--json]

Needs the packages of requirements-benchmark.txt, in a virtual environment apart from the one that you
develop in. Both write to an embedded server made for the occasion, fsync on, each to its own database,
in turn, from one thread. A stage is everything that the stage runner does about one partition whose
rows are there: find no checkpoint, take the lease, begin the attempt, validate the artifact in the
database by count and checksum, record success, give the lease back. `with row` adds the stage's line
among the run's own rows. A step of DBOS looks for its result, does nothing, records it. `found` is the
second time: DBOS finds the result, Sluice the checkpoint, and validates the artifact again. Figures,
not a verdict: ends with exit code 0.
"""

import argparse
import json
import logging
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from adopted_stage import ARTIFACT, ROWS, Sluice
from dbos import DBOS, SetWorkflowID

from orchestration.logs import configure_logs
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

WANTED = {"stage": 2.5, "found": 2.0}


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


Round = dict[str, dict[str, Cost]]
"""{"stage" or "found": {way: cost}}"""


def cost(times: list[float]) -> Cost:
    ordered = sorted(times)
    return Cost(
        statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    )


def measure_round(sluice: Sluice, number: int, iterations: int) -> Round:
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


def summarize(measured: list[Round]) -> list[dict[str, Any]]:
    """Medians over the rounds, the ratio's own among them: each round is compared with itself."""
    return [
        {
            "what": what,
            "way": way,
            "p50_ms": statistics.median(costs[what][way].p50 for costs in measured),
            "p99_ms": statistics.median(costs[what][way].p99 for costs in measured),
            "p50_to_dbos": statistics.median(
                costs[what][way].p50 / costs[what]["dbos"].p50 for costs in measured
            ),
        }
        for what, ways in measured[0].items()
        for way in ways
    ]


def run(iterations: int, rounds: int) -> list[Round]:
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
    lines = summarize(measured)
    if arguments.json:
        each = [{what: {way: vars(found) for way, found in ways.items()} for what, ways in m.items()}
                for m in measured]  # fmt: skip
        print(json.dumps({"medians": lines, "rounds": each, "wanted": WANTED}))
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

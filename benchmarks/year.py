"""A year of nightly runs, then a month of micro-batches: what stays bounded in the catalogue, what grows.

    python benchmarks/year.py [--nights 365] [--days 30] [--batches 96] [--plot docs/year.svg] [--json]

Every night brings one day, every third night a correction of a recent day, every twentieth one of an old
day, every thirtieth a new snapshot; every tenth night another version was refused by its gate before.
A micro-batch brings a revision of its day. Retention works every night, with the policy's defaults, and
the clock is moved by a day. After each night: rows of the catalogue, relations of the store, locks and
planning time of one query on two published views, rows in `ops`, and how long things took.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
from simulated_pipeline import SimulatedPipeline
from year_plot import draw

from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.setup import set_up

CHECKOUT = Path(__file__).resolve().parent.parent
QUERY = (
    "select count(*) from analytics.fct_weather as f join analytics.mean_week as m "
    "on m.airport_code = f.airport_code and m.observed_on = f.observed_at::date "
    "where f.observed_at >= '2013-03-01'"
)
# What happened is kept for as long as there is a warehouse, a row each time.
CHRONICLE = ("publications", "dropped_versions", "operator_actions")

Sample = dict[str, Any]


def measure(warehouse: Warehouse) -> Sample:
    """How large everything is, and what a query on published views takes."""
    with warehouse.connect() as owner:
        [catalogue] = owner.execute(
            "select (select count(*) from pg_class), (select count(*) from pg_attribute), "
            "(select count(*) from pg_class where relnamespace = 'store'::regnamespace "
            "and relkind in ('r', 'v')), "
            "(select sum(pg_total_relation_size(oid))::bigint from pg_class "
            "where relnamespace = 'store'::regnamespace and relkind = 'r'), "
            "(select sum(pg_total_relation_size(oid))::bigint from pg_class "
            "where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r')"
        ).fetchall()
        tables = owner.execute(
            "select relname from pg_class where relnamespace = 'ops'::regnamespace and relkind = 'r'"
        ).fetchall()
        rows = {name: _count(owner, f"ops.{name}") for (name,) in sorted(tables)}
        rows["staging"] = _count(owner, "staging.flights__weather")
    names = ("pg_class", "pg_attribute", "relations", "store_bytes", "catalogue_bytes")
    return dict(zip(names, catalogue, strict=True)) | {
        "rows": rows,
        "ops": sum(rows.values()) - sum(rows[name] for name in CHRONICLE),
        "chronicle": sum(rows[name] for name in CHRONICLE),
        **read_published(warehouse),
    }


def read_published(warehouse: Warehouse) -> Sample:
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute(QUERY.encode())
        row = reader.execute(
            "select count(*) from pg_locks as l join pg_class as c on c.oid = l.relation "
            "where l.pid = pg_backend_pid() and c.relnamespace <> 'pg_catalog'::regnamespace"
        ).fetchone()
        planned = []
        for _ in range(5):
            [[text]] = reader.execute(f"explain (format json, summary) {QUERY}".encode()).fetchall()
            planned.append(text[0]["Planning Time"])
    return {"locks": row[0] if row else 0, "planning_ms": min(planned)}


def _count(owner: psycopg.Connection, table: str) -> int:
    row = owner.execute(f"select count(*) from {table}".encode()).fetchone()
    return int(row[0]) if row else 0


def simulate(
    pipeline: SimulatedPipeline, nights: int, days: int, batches: int, say: Callable[[str], None]
) -> Iterator[Sample]:
    """One sample a night, after retention; `before` is the size just before it."""
    started = time.monotonic()
    for night in range(nights + days):
        is_nightly = night < nights
        if is_nightly:
            costs = list(_one_night(pipeline, night))
        else:
            costs = list(_micro_batches(pipeline, night, batches))
        before = measure(pipeline.warehouse)
        pruned_s = pipeline.prune()
        sample = measure(pipeline.warehouse)
        sample["before"] = {name: before[name] for name in ("relations", "pg_class", "ops")}
        sample |= {"night": night, "run_s": median(costs), "runs": len(costs), "prune_s": pruned_s}
        pipeline.let_a_day_pass()
        if night % 10 == 9 or not is_nightly:
            say(
                f"night {night + 1}: a run {sample['run_s']:.2f} s, prune {pruned_s:.2f} s, "
                f"{sample['relations']} relations ({before['relations']} before), "
                f"{sample['locks']} locks, {sample['ops']} rows in ops, "
                f"{time.monotonic() - started:.0f} s so far"
            )
        yield sample


def _one_night(pipeline: SimulatedPipeline, night: int) -> Iterator[float]:
    if night % 10 == 9:
        yield pipeline.run([pipeline.load_weather(night, 1)], "schedule", passes=False)
    artifacts = [pipeline.load_weather(night)]
    if night % 3 == 2:
        artifacts.append(pipeline.load_weather(max(0, night - 1 - night % 7), 3))
    if night % 20 == 19:
        artifacts.append(pipeline.load_weather(night * 7 % (night - 10), 1))
    if night % 30 == 0:
        artifacts.append(pipeline.load_airlines())
    yield pipeline.run(artifacts, "schedule")


def _micro_batches(pipeline: SimulatedPipeline, night: int, batches: int) -> Iterator[float]:
    for number in range(batches):
        readings = 1 + number * 24 // batches
        yield pipeline.run([pipeline.load_weather(night, readings)], "micro_batch")


def summarise(samples: Sequence[Sample], nights: int) -> Sample:
    """The greatest of each figure in the second quarter of the nights, in the last, and afterwards."""
    quarter = nights // 4
    spans = {
        "second_quarter": samples[quarter : 2 * quarter],
        "last_quarter": samples[3 * quarter : nights],
        "micro_batches": samples[nights:],
    }
    names = ("pg_class", "pg_attribute", "relations", "locks", "planning_ms", "ops")
    return {
        span: {name: max(sample[name] for sample in part) for name in names}
        | {"before_prune": max(sample["before"]["relations"] for sample in part)}
        | {name: median(sample[name] for sample in part) for name in ("run_s", "prune_s")}
        for span, part in spans.items()
        if part
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="A year of nights and a month of micro-batches.")
    parser.add_argument("--nights", type=int, default=365, help="nightly runs (default 365)")
    parser.add_argument("--days", type=int, default=30, help="days of micro-batches (default 30)")
    parser.add_argument("--batches", type=int, default=96, help="micro-batches a day (default 96)")
    parser.add_argument("--plot", type=Path, help="write the plot to this file")
    parser.add_argument("--samples", type=Path, help="append each sample to this file, a line each")
    parser.add_argument("--json", action="store_true", help="print one object")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="slb"))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "server", durable=False)
    server.start()
    try:
        warehouse = Warehouse(server.url())
        set_up(warehouse)
        shutil.copytree(CHECKOUT / "benchmarks" / "year_project", folder / "project")
        shutil.copytree(CHECKOUT / "dbt_project" / "macros", folder / "project" / "macros")
        pipeline = SimulatedPipeline(warehouse, folder / "project")
        samples = []
        for sample in simulate(pipeline, arguments.nights, arguments.days, arguments.batches, _say):
            samples.append(sample)
            if arguments.samples:
                with arguments.samples.open("a") as file:
                    print(json.dumps(sample), file=file)
    finally:
        server.destroy()
        shutil.rmtree(folder, ignore_errors=True)
    summary = summarise(samples, arguments.nights)
    if arguments.plot:
        arguments.plot.write_text(draw(samples, arguments.nights))
    if arguments.json:
        print(json.dumps({"summary": summary, "last": samples[-1]}))
        return 0
    for span, figures in summary.items():
        print(span.replace("_", " "))
        for name, value in figures.items():
            print(
                f"  {name:14} {value:,.3g}"
                if isinstance(value, float)
                else f"  {name:14} {value:,}"
            )
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

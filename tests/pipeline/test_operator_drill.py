"""Whatever ends a run, `sluice status` prints a command, and typed once the cause is gone it publishes."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from effort import draw
from harness import CHECKOUT, Sluice
from prometheus_client.parser import text_string_to_metric_families
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.faults import Fault
from ingestion.demo_api.server import DemoServer
from orchestration.runs.cancellation import request_cancel
from orchestration.warehouse.connections import Role, Warehouse

pytestmark = pytest.mark.slow

DAY = "2013-01-05"
REQUEST = ("run", "--pipeline", "flights", "--partitions", DAY)
TYPED = " ".join(["sluice", *REQUEST])


@dataclass(kw_only=True)
class Drill(WarmSluice):
    """A Sluice of an edited copy."""

    workers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))

    def beside(self, *arguments: str, code: int = 0) -> Any:
        """A light command while a run is on its way: a process of its own."""
        return Sluice(self.warehouse, self.home, self.demo, CHECKOUT, self.extra).json(
            *arguments, code=code
        )

    def begin(self, *arguments: str) -> "Future[Any]":
        return self.workers.submit(self.call, *arguments, "--json")

    def type(self, command: str, code: int = 0) -> Any:
        """Runs a command exactly as it was printed, for its JSON."""
        words = command.split()
        assert words[0] == "sluice"
        return self.json(*words[1:], code=code)

    def status(self) -> Any:
        return self.json("status")["run"]

    def break_in(self, file: str, old: str, new: str) -> Callable[[], None]:
        """Edits a file of the copy; what it returns takes the edit back."""
        path = self.project / file
        good = path.read_text()
        assert good.count(old) == 1
        path.write_text(good.replace(old, new))
        return lambda: bool(path.write_text(good)) and None

    def wait_for(self, statement: str) -> str:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if rows := self.query(statement):
                return str(rows[0][0])
            time.sleep(0.1)
        pytest.fail(f"did not come: {statement}")

    def worker(self) -> int:
        """The process that fetches for the only run, as the run's lease names it."""
        return int(
            self.wait_for(
                "select split_part(l.holder, '|', 2) from ops.leases l, ops.checkpoints c "
                "where l.name like 'run/%' and l.expires_at > clock_timestamp() "
                "and c.stage = 'extract' and c.status = 'running'"
            )
        )

    def leases(self) -> list[Any]:
        return self.query("select name from ops.leases where expires_at > clock_timestamp()")


@pytest.fixture
def drill(
    warehouse: Warehouse, tmp_path: Path, demo_server: DemoServer, warm_process: WarmProcess
) -> Iterator[Drill]:
    demo_server.clear()
    home = tmp_path / "home"
    home.mkdir()
    plain = Sluice(warehouse, home, demo_server).copy_project(tmp_path / "project")
    yield Drill(plain.warehouse, home, demo_server, plain.project, process=warm_process)
    demo_server.clear()


def kill_in_extract(drill: Drill) -> str:
    """A run whose worker was killed while it fetched."""
    drill.demo.set_fault(Fault.TIME_OUT, resource="flights", date=DAY, seconds=60)
    run = drill.begin(*REQUEST)
    os.kill(drill.worker(), signal.SIGKILL)
    assert run.result(60).returncode == -signal.SIGKILL
    drill.demo.clear()
    shown = drill.status()
    assert (shown["status"], shown["stage"]) == ("interrupted", "extract")
    assert shown["next"] == TYPED
    return str(shown["run"])


def test_a_killed_run_is_listed_then_recovered_and_given_up_when_its_workers_keep_dying(
    drill: Drill,
) -> None:
    run = kill_in_extract(drill)
    [listed] = drill.json("recover", "--dry-run")
    assert (listed["run_id"], listed["stage"], listed["recoveries"]) == (run, "extract", 0)

    with drill.warehouse.connect(autocommit=True) as connection:
        connection.execute("update ops.runs set recoveries = 5")
    [given_up] = drill.json("recover", code=70)
    assert given_up["failure"]["error_code"] == "attempts_exhausted"
    assert drill.json("recover") == []
    shown = drill.status()
    assert (shown["cause"], shown["next"]) == ("attempts_exhausted", TYPED)
    assert drill.query("select owner, payload ->> 'error_code' from ops.outbox") == [
        (shown["owner"], "attempts_exhausted")
    ]

    with drill.warehouse.connect(autocommit=True) as connection:
        connection.execute(
            "update ops.runs set status = 'running', outcome = null, failure = null, cause = null"
        )
    [recovered] = drill.json("recover")
    assert (recovered["run_id"], recovered["outcome"]) == (run, "published")
    assert drill.json("recover") == []
    assert drill.query("select status, cause, recoveries from ops.runs") == [("finished", None, 0)]
    assert (drill.leases(), drill.query("select count(*) from ops.publications")) == ([], [(1,)])


def test_a_cancelled_extract_stops_cleanly_and_goes_on_when_it_is_asked_for_again(
    drill: Drill,
) -> None:
    drill.extra["SLUICE_FETCH_TIMEOUT_S"] = "2"
    drill.demo.set_fault(Fault.TIME_OUT, resource="flights", date=DAY, seconds=30)
    run = drill.begin(*REQUEST)
    drill.worker()
    answer = drill.beside("cancel", "r_", "--reason", "the source is down", "--wait", "60")
    assert answer["cancel"] == "cancelled"
    done = run.result(60)
    assert done.returncode == 75
    failure = json.loads(done.stdout)["failure"]
    assert (failure["stage"], failure["error_code"]) == ("extract", "cancelled")
    assert not failure["transient"]
    assert drill.leases() == []
    # What was fetched is kept, and nothing of it was loaded yet.
    assert set(drill.query("select stage, step, status, cause from ops.checkpoints")) == {
        ("initialize", "", "succeeded", None),
        ("notify", "", "succeeded", None),
        ("extract", "fetch", "succeeded", None),
        ("extract", "", "failed", "cancelled"),
    }

    drill.demo.clear()
    shown = drill.status()
    assert (shown["status"], shown["cause"], shown["next"]) == ("cancelled", "cancelled", TYPED)
    assert "the source is down" in shown["cancel_requested"]
    assert (shown["input"].count("@1"), shown["output_exists"]) == (3, False)
    assert drill.json("recover") == []
    published = drill.type(shown["next"])
    assert (published["run_id"], published["outcome"]) == (shown["run"], "published")
    assert drill.json("cancel", shown["run"])["cancel"] == "ended"
    assert drill.query("select action, reason from ops.operator_actions") == [
        ("cancel", "the source is down")
    ]


def test_a_run_without_a_worker_is_cancelled_at_once_and_a_replay_takes_it_on(
    drill: Drill,
) -> None:
    run = kill_in_extract(drill)
    assert drill.json("cancel", run)["cancel"] == "cancelled"
    assert drill.status()["status"] == "cancelled"
    assert drill.json("recover") == []
    replayed = drill.json("replay", run)
    assert (replayed["run_id"], replayed["outcome"]) == (run, "published")
    assert drill.leases() == []

    again = drill.json("replay", run, "--stage", "validate")
    assert again["outcome"] == "unchanged"
    attempts = drill.query(
        "select stage, max(attempt) from ops.checkpoints where step = '' "
        "and stage in ('validate', 'transform', 'gate') group by 1 order by 1"
    )
    assert attempts == [("gate", 2), ("transform", 2), ("validate", 2)]
    assert drill.query("select count(*) from ops.publications") == [(1,)]
    nowhere = drill.json("replay", run, "--stage", "nowhere", code=78)
    assert nowhere["error"]["code"] == "unknown_stage"
    _metrics_tell(drill)


def _metrics_tell(drill: Drill) -> None:
    """Of a run whose first worker was killed in extract and which was replayed from validate on."""
    measured = drill.json("metrics")
    stages = {(row["stage"], row["dataset"]): row for row in measured["stages"]}
    flights = stages["extract", "flights.flights"]
    assert (flights["attempts"], flights["retries"]) == (2, 1)
    assert flights["records"] > 700
    assert flights["last_per_s"] > 0
    assert 0 < flights["p50_s"] <= flights["p95_s"]
    assert stages["transform", ""]["last_per_s"] > 0
    lost = {row["dataset"] for row in measured["failures"] if row["error_code"] == "worker_lost"}
    assert "flights.flights" in lost
    datasets = {row["dataset"]: row for row in measured["datasets"]}
    assert datasets["flights.weather"]["newest_published"] == DAY
    assert datasets["flights.weather"]["publication_lag_s"] > 0
    assert datasets["flights.planes"]["window_age_s"] is None
    assert datasets["flights.planes"]["fetched_age_s"] > 0

    text = drill.call("metrics", "--format", "prometheus").stdout
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert all(name.startswith("sluice_") and families[name].documentation for name in families)
    retries = {
        (sample.labels["stage"], sample.labels["dataset"]): sample.value
        for sample in families["sluice_stage_retries"].samples
    }
    assert retries["extract", "flights.flights"] == 1
    assert retries["gate", ""] == 1
    assert families["sluice_stage_duration_seconds"].type == "summary"
    assert drill.call("metrics", "--pipeline", "flights").returncode == 0
    assert drill.json("metrics", "--pipeline", "other")["stages"] == []
    assert drill.json("metrics", "--format", "xml", code=78)["error"]["code"] == "unknown_format"


# Holds a run up for two seconds, in the statement that writes a row of a table.
SLOW = """
create function public.hold_up() returns trigger language plpgsql as
    $$ begin perform pg_sleep(2); return new; end $$;
create trigger hold_up before insert or update on {table}
    for each row when (new.{column} = '{value}') execute function public.hold_up()
"""


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("ops.run_stages", "stage", ["initialize", "validate", "transform", "gate"]),
        # The idle slot is prepared, the pointer is not turned.
        ("ops.slot_views", "model", ["dim_plane"]),
    ],
    ids=["as a stage begins", "before the flip"],
)
def test_a_run_cancelled_in_any_stage_is_clean_and_goes_on_where_it_stopped(
    drill: Drill, table: str, column: str, values: list[str]
) -> None:
    for value in values:
        with drill.warehouse.connect(autocommit=True) as connection:
            connection.execute(SLOW.format(table=table, column=column, value=value).encode())
        run = drill.begin(*REQUEST)
        drill.wait_for("select 1 from pg_stat_activity where wait_event = 'PgSleep'")
        [(run_id,)] = drill.query("select run_id from ops.runs")
        with drill.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            assert request_cancel(connection, run_id, reason="drill", wait_s=60) == "cancelled"
        done = run.result(60)
        failure = json.loads(done.stdout)["failure"]
        stopped_in = value if column == "stage" else "publish"
        assert (done.returncode, failure["error_code"]) == (75, "cancelled")
        assert failure["stage"] == stopped_in
        assert drill.leases() == drill.query("select 1 from ops.publications") == []
        assert drill.query("select 1 from ops.attempts where status = 'running'") == []
        assert drill.query("select status, cause from ops.runs") == [("cancelled", "cancelled")]
        with drill.warehouse.connect(autocommit=True) as connection:
            connection.execute("drop function public.hold_up() cascade")
    assert drill.json("recover") == []
    assert drill.type(drill.status()["next"])["outcome"] == "published"
    assert drill.query("select count(*) from ops.publications") == [(1,)]
    assert drill.query("select max(attempt) from ops.checkpoints where step = '' "
                       "and stage = 'extract'") == [(1,)]  # fmt: skip


@contextmanager
def _wrong_token(drill: Drill) -> Iterator[None]:
    drill.demo.set_fault(Fault.EXPIRED_TOKEN, resource="flights", date=DAY)
    yield
    drill.demo.clear()


@contextmanager
def _no_records(drill: Drill) -> Iterator[None]:
    drill.demo.correct("flights", DAY, remove=[{}])
    yield
    drill.demo.clear()


@contextmanager
def _strict_suite(drill: Drill) -> Iterator[None]:
    mend = drill.break_in(
        "expectations/suites/marts/dim_carrier.yml",
        'kwargs: {value: {"$PARAMETER": input_rows_flights__airlines}}',
        "kwargs: {value: 1000000}",
    )
    yield
    mend()


@contextmanager
def _broken_model(drill: Drill) -> Iterator[None]:
    mend = drill.break_in(
        "dbt_project/models/marts/flights/dim_carrier.sql",
        "        carrier_name\n",
        "        carrier_name || 1 / 0 as carrier_name\n",
    )
    yield
    mend()


@contextmanager
def _no_right_to_load(drill: Drill) -> Iterator[None]:
    with drill.warehouse.connect(autocommit=True) as connection:
        connection.execute("revoke insert on ops.artifacts from sluice_extractor")
        yield
        connection.execute("grant insert on ops.artifacts to sluice_extractor")


@contextmanager
def _no_pseudonym_key(drill: Drill) -> Iterator[None]:
    drill.extra["SLUICE_PSEUDONYM_KEY"] = ""
    yield
    drill.extra.clear()


@pytest.mark.parametrize(
    ("cause", "failure", "code", "stage", "command"),
    draw(
        [
            (_wrong_token, "source (source_unauthorized)", 11, "extract", TYPED),
            (_no_records, "quality (partition_rejected)", 10, "validate", f"{TYPED} --refresh"),
            (
                _strict_suite,
                "quality (gate_failed)",
                10,
                "gate",
                "sluice replay {run} --stage gate",
            ),
            (_broken_model, "transform", 12, "transform", TYPED),
            (_no_right_to_load, "destination (sqlstate_42501)", 13, "extract", TYPED),
            (_no_pseudonym_key, "configuration (source_not_configured)", 78, "initialize", TYPED),
        ],
        3,
    ),
    ids=lambda value: getattr(value, "__name__", "").strip("_") or None,
)
def test_the_command_that_status_prints_publishes_once_the_cause_is_gone(
    drill: Drill,
    cause: Callable[[Drill], Any],
    failure: str,
    code: int,
    stage: str,
    command: str,
) -> None:
    with cause(drill):
        first = drill.run(DAY, code=code)
        shown = drill.status()
        assert shown["failure"].startswith(failure)
        assert shown["failed_stage"] == stage
        assert "@" in shown["owner"]
        assert shown["input"]
        assert len(shown["checkpoint"] or "") == 64
        assert shown["next"] == command.format(run=first["run_id"])
        assert drill.call(*shown["look"].split()[1:]).returncode in {0, 78}
        if stage == "gate":
            # The cause is still there: judged again under the same key, and held again.
            assert drill.type(shown["next"], code=10)["run_id"] == first["run_id"]
            assert drill.query("select attempt from ops.checkpoints where stage = 'gate'") == [(2,)]
    done = drill.type(shown["next"])
    assert (done["outcome"], done["failure"]) == ("published", None)
    assert drill.query("select count(*) from ops.publications") == [(1,)]
    if stage == "gate":
        old = drill.json("status", first["run_id"])["run"]
        assert old["superseded_by"] == done["run_id"]

"""What the same request does after edits, corrections and options: what is one run and what is not."""

import hashlib
import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import Sluice
from hypothesis import given
from hypothesis import strategies as st
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from ingestion.partitions import Partition
from orchestration.identity import idempotency_key
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

DAY = "2013-01-05"


@pytest.fixture(scope="module")
def published(
    server: EmbeddedServer,
    template: str,
    demo_server: DemoServer,
    warm_process: WarmProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Sluice:
    """One published day, made once; tests work on clones of it."""
    demo_server.clear()
    home = tmp_path_factory.mktemp("home")
    _clone(server, template, "one_day")
    first = WarmSluice(
        Warehouse(server.url(database="one_day")), home, demo_server, process=warm_process
    )
    copy = first.copy_project(tmp_path_factory.mktemp("project") / "copy")
    assert copy.run(DAY)["outcome"] == "published"
    return copy


@pytest.fixture
def edited(
    published: Sluice, server: EmbeddedServer, demo_server: DemoServer, tmp_path: Path
) -> Iterator[Sluice]:
    """A warehouse with one day published, from a project that the test may edit."""
    demo_server.clear()
    name = f"test_{secrets.token_hex(6)}"
    _clone(server, "one_day", name)
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    shutil.copytree(published.project, project)
    yield replace(
        published, warehouse=Warehouse(server.url(database=name)), home=home, project=project
    )
    demo_server.clear()
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)".encode())


def _clone(server: EmbeddedServer, template: str, name: str) -> None:
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(
            f"create database {name} template {template} owner sluice_owner strategy file_copy".encode()
        )


def replace_in(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
    file.write_text(text.replace(old, new))


def relations(sluice: Sluice, version: str) -> dict[str, str]:
    models = sluice.json("versions", "show", version)["models"]
    return {model["model"]: model["relation"] for model in models}


@pytest.mark.slow
def test_an_edited_model_is_rebuilt_with_its_dependants_and_taking_it_back_publishes_again(
    edited: Sluice,
) -> None:
    first = edited.run(DAY)
    before = edited.everything_published()
    model = edited.project / "dbt_project/models/marts/flights/dim_carrier.sql"

    replace_in(model, "        carrier_name\n", "        upper(carrier_name) as carrier_name\n")
    second = edited.run(DAY)
    assert second["run_id"] != first["run_id"]
    assert second["outcome"] == "published"
    assert second["partitions"] == first["partitions"]
    old, new = relations(edited, first["version"]), relations(edited, second["version"])
    assert {name for name in new if new[name] != old[name]} == {"dim_carrier", "agg_carrier_daily"}
    after = edited.everything_published()
    assert {name for name in after if after[name] != before[name]} == {
        "dim_carrier",
        "agg_carrier_daily",
    }

    replace_in(model, "        upper(carrier_name) as carrier_name\n", "        carrier_name\n")
    third = edited.run(DAY)
    assert (third["run_id"], third["version"]) == (first["run_id"], first["version"])
    assert third["outcome"] == "published"
    assert edited.everything_published() == before
    assert edited.run(DAY)["outcome"] == "unchanged"


@pytest.mark.slow
def test_an_edited_description_and_comment_change_nothing_published(edited: Sluice) -> None:
    first = edited.run(DAY)
    folder = edited.project / "dbt_project/models/marts/flights"
    models = folder / "_flights__models.yml"
    replace_in(models, "One row per scheduled flight: ", "Exactly one row per scheduled flight: ")
    (folder / "dim_carrier.sql").write_text(
        "-- a comment\n" + (folder / "dim_carrier.sql").read_text()
    )
    second = edited.run(DAY)
    assert second["run_id"] != first["run_id"]
    assert (second["outcome"], second["version"]) == ("unchanged", first["version"])
    assert edited.query("select count(*) from ops.publications") == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "old", "new", "stage"),
    [
        (
            "marts/dim_carrier.yml",
            'kwargs: {value: {"$PARAMETER": input_rows_flights__airlines}}',
            "kwargs: {value: 1000000}",
            "gate",
        ),
        (
            "staging/flights__airlines.yml",
            "min_value: 2, max_value: 100",
            "min_value: 99",
            "validate",
        ),
    ],
)
def test_an_edited_suite_holds_the_next_run_and_taking_it_back_changes_nothing(
    edited: Sluice, suite: str, old: str, new: str, stage: str
) -> None:
    first = edited.run(DAY)
    before = edited.everything_published()
    file = edited.project / "expectations/suites" / suite

    replace_in(file, old, new)
    held = edited.run(DAY, code=10)
    assert held["run_id"] != first["run_id"]
    assert (held["outcome"], held["failure"]["kind"]) == ("held", "quality")
    assert held["failure"]["stage"] == stage
    assert edited.everything_published() == before
    assert edited.run(DAY, code=10)["run_id"] == held["run_id"]

    replace_in(file, new, old)
    again = edited.run(DAY)
    assert (again["run_id"], again["outcome"]) == (first["run_id"], "unchanged")
    assert again["version"] == first["version"]
    assert edited.everything_published() == before


@pytest.mark.slow
def test_a_version_that_passed_is_published_although_other_rules_held_it_meanwhile(
    edited: Sluice,
) -> None:
    """The moment is given, so that the first and the last run ask for one and the same verdict."""
    moment = ("--as-of", "2013-03-01T00:00:00+00:00")
    model = edited.project / "dbt_project/models/marts/flights/dim_carrier.sql"
    replace_in(model, "        carrier_name\n", "        upper(carrier_name) as carrier_name\n")
    passed = edited.run(DAY, "--no-publish", *moment)

    suite = edited.project / "expectations/suites/marts/dim_carrier.yml"
    good = suite.read_text()
    replace_in(suite, '{"$PARAMETER": input_rows_flights__airlines}', "1000000")
    held = edited.run(DAY, "--no-publish", *moment, code=10)
    assert held["version"] == passed["version"]
    assert edited.json("versions", "show", held["version"])["state"] == "held"

    suite.write_text(good)
    done = edited.run(DAY, *moment)
    assert (done["outcome"], done["version"]) == ("published", passed["version"])
    verdicts = edited.json("gates", "show", done["run_id"])["verdicts"]
    assert {item["verdict"] for item in verdicts} <= {"passed", "warned"}


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
WINDOWS = st.one_of(st.just("snapshot"), st.dates().map(lambda day: day.isoformat()))
UNITS = st.tuples(
    NAMES, NAMES, NAMES, WINDOWS, st.integers(1, 999), st.sampled_from(["extract", "validate"])
)


@given(UNITS, UNITS)
def test_different_units_never_share_a_key(first: Any, second: Any) -> None:
    def key(pipeline: str, source: str, name: str, window: str, revision: int, stage: str) -> str:
        return idempotency_key(
            pipeline, str(Partition(f"{source}.{name}", window, revision)), stage
        )

    assert (key(*first) == key(*second)) == (first == second)


@given(st.dates(), st.integers(1, 99), NAMES)
def test_flights_and_weather_of_one_day_never_share_a_key(
    day: Any, revision: int, pipeline: str
) -> None:
    keys = {
        idempotency_key(pipeline, f"flights.{name}/{day.isoformat()}@{revision}", stage)
        for name in ("flights", "weather")
        for stage in ("extract", "validate")
    }
    assert len(keys) == 4


@given(st.text(), st.text())
def test_a_colon_in_a_part_is_refused(before: str, after: str) -> None:
    for parts in [(f"{before}:{after}", "p", "s"), ("p", f"{before}:{after}", "s")]:
        with pytest.raises(ValueError, match="colon"):
            idempotency_key(*parts)


@pytest.mark.slow
def test_one_published_day_answers_every_command_and_every_option(sluice: Sluice) -> None:
    """One test, because each of its steps needs the run before it and costs seconds of its own."""
    before = counts(sluice)
    plan = sluice.run(DAY, "--dry-run")
    assert (plan["run"], plan["fetch"], plan["reuse"]) == ("new", 5, 0)
    assert counts(sluice) == before

    first = sluice.run(DAY, "--no-publish")
    assert (first["outcome"], first["partitions"]["extracted"]) == ("unchanged", 5)
    assert sluice.everything_published() == {}
    assert sluice.query("select count(*) from ops.publications") == [(0,)]
    assert sluice.json("versions", "list")[0]["state"] == "passed"

    done = sluice.run(DAY)
    assert (done["outcome"], done["version"]) == ("published", first["version"])
    assert done["partitions"]["reused"] == 5
    _keys_are_literal_and_unique(sluice)
    _every_command_answers(sluice, done["run_id"], done["version"])

    before = counts(sluice)
    plan = sluice.run(DAY, "--dry-run")
    assert (plan["run_id"], plan["fetch"], plan["reuse"]) == (done["run_id"], 0, 5)
    sluice.run(DAY, "--refresh", "--dry-run")
    assert counts(sluice) == before


def _keys_are_literal_and_unique(sluice: Sluice) -> None:
    for stage in ("extract", "validate"):
        text = f"flights:flights.flights/{DAY}@1:{stage}"
        key = hashlib.sha256(text.encode()).hexdigest()
        assert sluice.query(
            f"select source_partition, stage, status from ops.checkpoints "
            f"where idempotency_key = '{key}'"
        ) == [(f"flights.flights/{DAY}@1", stage, "succeeded")]
        columns = (
            "pipeline, stage, step, source_partition, run_id, status, fence, attempt, output_ref"
        )
        for new_key in (f"'{key}'", "repeat('0', 64)"):
            with (
                sluice.warehouse.connect(Role.RUNNER) as connection,
                pytest.raises(psycopg.errors.UniqueViolation),
            ):
                connection.execute(
                    f"insert into ops.checkpoints (idempotency_key, {columns}) "
                    f"select {new_key}, {columns} from ops.checkpoints "
                    f"where idempotency_key = '{key}'".encode()
                )


def _every_command_answers(sluice: Sluice, run: str, version: str) -> None:
    status = sluice.json("status")
    assert status["published"][0]["version"] == version
    assert status["run"]["run"] == run
    assert sluice.json("status", run[:8])["run"]["run"] == run
    assert len(sluice.json("runs", "list")) == 2
    assert sluice.json("runs", "list", "--outcome", "published")[0]["run_id"] == run
    assert sluice.json("runs", "show", run[2:9])["outcome"] == "published"
    assert sluice.json("versions", "list")[0]["published"] is True
    for named in (version, version[:7], version[2:9]):
        assert sluice.json("versions", "show", named)["version_id"] == version
    for wrong in (["versions", "show", "v_x"], ["runs", "show", "r_x"], ["status", "r_x"]):
        assert sluice.json(*wrong, code=78)["error"]["kind"] == "configuration"
    assert {item["verdict"] for item in sluice.json("gates", "show")["verdicts"]} <= {
        "passed",
        "warned",
    }
    assert sluice.json("quarantine", "list") == []
    assert sluice.json("sources", "list")
    assert sluice.json("sources", "show", "flights.weather")
    assert sluice.json("dsn")
    assert sluice.json("dsn", "--role", "analyst")


@pytest.mark.slow
def test_a_refresh_brings_corrections_and_rollback_takes_them_back(edited: Sluice) -> None:
    sluice = edited
    first = sluice.run(DAY)
    before = sluice.everything_published()

    nothing_new = sluice.run(DAY, "--refresh")
    assert (nothing_new["outcome"], nothing_new["version"]) == ("unchanged", first["version"])
    assert nothing_new["partitions"]["extracted"] == 5

    sluice.demo.correct("flights", DAY, changes=[({"carrier": "AS"}, {"distance": 2400})])
    assert sluice.run(DAY)["outcome"] == "unchanged"
    corrected = sluice.run(DAY, "--refresh")
    assert corrected["outcome"] == "published"
    assert sluice.query(
        "select max(revision) from ops.artifacts where resource = 'flights.flights'"
    ) == [(3,)]
    assert sluice.query(
        "select distinct distance_miles from analytics.fct_flights where carrier_code = 'AS'"
    ) == [(2400,)]
    after = sluice.everything_published()
    assert {name for name in after if after[name] != before[name]} == {"fct_flights"}

    sluice.demo.clear()
    taken_back = sluice.run(DAY, "--refresh")
    assert (taken_back["outcome"], taken_back["version"]) == ("published", first["version"])
    assert sluice.everything_published() == before

    back = sluice.json("rollback", "--reason", "the correction was right")
    assert (back["outcome"], back["version"]) == ("published", corrected["version"])
    assert sluice.everything_published() == after
    # What an operator rolled back stays so, whoever asks again.
    assert sluice.run(DAY)["outcome"] == "unchanged"
    assert sluice.everything_published() == after
    forth = sluice.json("rollback", first["version"][:9], "--reason", "it was not")
    assert forth["version"] == first["version"]
    assert sluice.everything_published() == before
    reasons = sluice.query("select reason from ops.operator_actions order by action_id")
    assert reasons == [("the correction was right",), ("it was not",)]
    assert sluice.call("rollback").returncode == 2


SCHEDULED = """
import sys

from orchestration.cli.output import print_json
from orchestration.cli.run import drive
from orchestration.cli.session import prepare_logs, read_settings, start_services
from orchestration.model import TriggerKind
from orchestration.triggers.request import RunRequest

settings = read_settings()
prepare_logs(settings)
key, day = sys.argv[1:]
summary = drive(
    settings,
    start_services(settings, print),
    RunRequest("flights", [day], TriggerKind.SCHEDULE, key, fetch_snapshots=True),
)
print_json(summary.as_json())
"""


def run_as_scheduled(sluice: Sluice, key: str) -> Any:
    """What a scheduler does: the same door as by hand, with a trigger key of its own."""
    done = subprocess.run(
        [sys.executable, "-c", SCHEDULED, key, DAY],
        env=sluice.environment,
        cwd=sluice.home,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def snapshot_revisions(sluice: Sluice) -> set[int]:
    rows = sluice.query(
        "select max(revision) from ops.artifacts where window_name = 'snapshot' "
        "and state = 'adopted' group by resource"
    )
    return {revision for (revision,) in rows}


@pytest.mark.slow
def test_a_snapshot_is_fetched_again_by_the_next_scheduled_run_and_not_by_a_manual_one(
    edited: Sluice,
) -> None:
    sluice = edited
    sluice.demo.correct("airlines", changes=[({"carrier": "UA"}, {"name": "United"})])
    manual = sluice.run(f"{DAY}..2013-01-06")
    assert manual["partitions"] == {"requested": 7, "extracted": 2, "reused": 5, "quarantined": 0}
    assert snapshot_revisions(sluice) == {1}

    scheduled = run_as_scheduled(sluice, "2013-01-07")
    assert (scheduled["outcome"], scheduled["partitions"]["extracted"]) == ("published", 3)
    assert snapshot_revisions(sluice) == {2}
    assert sluice.query(
        "select carrier_name from analytics.dim_carrier where carrier_code = 'UA'"
    ) == [("United",)]

    again = run_as_scheduled(sluice, "2013-01-07")
    assert (again["run_id"], again["outcome"]) == (scheduled["run_id"], "unchanged")
    assert snapshot_revisions(sluice) == {2}


def counts(sluice: Sluice) -> dict[str, int]:
    """Rows of every table of ops, quarantine and staging."""
    tables = sluice.query(
        "select format('%I.%I', relnamespace::regnamespace, relname) from pg_class where relkind = 'r' "
        "and relnamespace::regnamespace::text in ('ops', 'quarantine', 'staging')"
    )
    return {table: sluice.query(f"select count(*) from {table}")[0][0] for (table,) in tables}

"""The suites and data tests of the project itself, on a version with a long history."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from harness import Sluice
from late_work import Silence
from long_history import LongHistory, scans
from shelf import run_of
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.code import Code
from orchestration.identity import VersionId
from orchestration.pipelines.files import get_pipeline
from orchestration.publication.versions import get_version
from orchestration.runs.budget import Budget
from orchestration.runs.leases import try_acquire
from orchestration.settings import Settings
from orchestration.stages.base import StageContext
from orchestration.stages.judging import DBT_TESTS, Judging
from orchestration.stages.transform import dbt_session, load_project
from orchestration.stages.under_test import read_under_test
from orchestration.stages.version_suites import SuiteJudge
from orchestration.stages.version_tests import read_test_judge
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.test_reads import TestScope as Scope
from orchestration.warehouse.dbt.test_rules import test_statement as statement_of
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.fence import Lease, build_lease
from orchestration.warehouse.manifests import load_manifest

pytestmark = pytest.mark.slow

OLD, NEW = "2013-01-01..2013-01-02", "2013-01-03"
REPEATS = 40
PARTITIONED = ("fct_flights", "fct_weather_hourly", "agg_carrier_daily")


@pytest.fixture(scope="module")
def three_days(
    server: EmbeddedServer,
    template: str,
    demo_server: DemoServer,
    warm_process: WarmProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """A database in which two days were published, and then a third one."""
    demo_server.clear()
    _clone(server, template, "three_days")
    warehouse = Warehouse(server.url(database="three_days"))
    home = tmp_path_factory.mktemp("home")
    sluice: Sluice = WarmSluice(warehouse, home, demo_server, process=warm_process)
    for days in (OLD, NEW):
        assert sluice.run(days)["outcome"] == "published"
    return "three_days"


@pytest.fixture
def warehouse(server: EmbeddedServer, three_days: str) -> Iterator[Warehouse]:
    name = f"test_{secrets.token_hex(6)}"
    _clone(server, three_days, name)
    yield Warehouse(server.url(database=name))
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)".encode())


def _clone(server: EmbeddedServer, template: str, name: str) -> None:
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(
            f"create database {name} template {template} owner sluice_owner strategy file_copy".encode()
        )


@pytest.fixture
def history(warehouse: Warehouse) -> Iterator[LongHistory]:
    """The two days of the first version, forty times over."""
    long = LongHistory(warehouse)
    [(first,)] = long.owner.execute(
        "select version_id from ops.versions order by created_at limit 1"
    ).fetchall()
    long.make(first, REPEATS)
    yield long
    long.close()


@pytest.fixture
def context(warehouse: Warehouse, tmp_path: Path) -> Iterator[StageContext]:
    settings = Settings(home=tmp_path)
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        lease = try_acquire(runner, build_lease("flights"))
        assert lease is not None
        # Nobody extends it while a test works.
        with warehouse.connect() as owner:
            owner.execute("update ops.leases set expires_at = clock_timestamp() + interval '1 day'")
        yield StageContext(
            settings=settings,
            warehouse=warehouse,
            pipeline=get_pipeline(settings.pipelines_dir, "flights"),
            run=run_of("r_test"),
            code=Code("d", "s", "c", "p", commit=None, dirty=None),
            connection=runner,
            run_lease=lease,
            progress=Silence(),
            check_leases=lambda: None,
            read_checkpoints=lambda _: {},
            budget=Budget(600),
            partitions=[],
            work_dir=tmp_path,
        )


def latest(history: LongHistory) -> str:
    [(version,)] = history.owner.execute(
        "select version_id from ops.versions where state = 'published'"
    ).fetchall()
    return str(version)


def judging_of(context: StageContext, version: VersionId) -> Judging:
    manifest = get_version(context.connection, version).manifest_id
    held = load_manifest(context.connection, manifest, "flights")
    return Judging(context, read_under_test(context.connection, version, held))


def test_no_query_of_tonights_gate_reads_a_day_that_was_judged_before(
    history: LongHistory, context: StageContext
) -> None:
    """Every suite and data test of the project that is about partitions or keys, run with EXPLAIN."""
    version = history.version(latest(history), {m: [p] for m, p in history.history.items()})
    under = judging_of(context, version).under
    segments = sorted(piece.segment for piece in history.history.values())
    rows_tonight = {m: s.visible[NEW].row_count for m, s in under.slices.items()}

    judge = SuiteJudge(under, context.settings.suites_dir, context.run.as_of)
    builder = dbt_session(context, Role.TRANSFORMER, under.manifest)
    graph = load_project(context, builder)
    with context.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
        tests = read_test_judge(connection, under, graph, builder)
    queries = {
        f"{each.name} {each.group.manner}": judge.subject(each, {NEW}).query
        for each in judge.rules(context.pipeline.suites)
        if each.by_partition
    }
    queries |= {
        test.name: statement_of(test, tests.writer, under.slices, {NEW})
        for test in tests.tests
        if test.scope is not Scope.ALL and set(test.parents) & set(PARTITIONED)
    }
    assert len(queries) > 20
    looked_up = 0
    with context.warehouse.connect(
        Role.GATE, autocommit=True, **{"sluice.manifest": under.manifest.manifest_id}
    ) as gate:
        for name, query in queries.items():
            assert query is not None, name
            found = scans(gate, f"select count(*) from ({query}) as q", segments)
            assert "Seq Scan" not in found, (name, found)
            assert sum(found.values()) <= max(rows_tonight.values()), (name, found)
            looked_up += bool(found)
    # The keys of three models, by suites and by dbt.
    assert looked_up >= 6


def test_a_flight_of_another_night_is_found_by_the_suite_and_by_dbt(
    history: LongHistory, context: StageContext
) -> None:
    like = latest(history)
    good = history.version(like, {m: [p] for m, p in history.history.items()})
    lease = Lease(context.run_lease.name, context.run_lease.fence)
    first = judging_of(context, good)
    for work in (first.evaluate_suites, first.run_tests):
        work()
    with context.connection.transaction():
        first.record(lease)
    assert verdict_on(first, DBT_TESTS, "unique_fct_flights_flight_key")["success"]

    relation = history.relations(good)["fct_flights"]
    twice = history.add_segment(
        "fct_flights",
        relation,
        "where _partition = '2012-12-05' limit 3",
        [0],
        flight_key="flight_key",
        _partition="'2013-01-04'",
    )
    second = judging_of(context, history.version(good, {"fct_flights": [twice]}))
    second.context.run = run_of("r_second")
    second.evaluate_suites()
    second.run_tests()
    unique = verdict_on(second, "marts/fct_flights", "expect_column_values_to_be_unique")
    assert unique["partitions"] == {"2012-12-05": 3, "2013-01-04": 3}
    assert (unique["manner"], unique["element_count"]) == ("keys", 6)
    tested = verdict_on(second, DBT_TESTS, "unique_fct_flights_flight_key")
    assert (tested["success"], tested["unexpected_count"]) == (False, 3)
    assert second.verdicts["marts/dim_plane"]["results"] == []
    ran = {item["type"] for item in second.verdicts[DBT_TESTS]["results"]}
    assert "unique_dim_plane_tail_number" not in ran
    assert "weather_is_of_new_york" not in ran


def verdict_on(judging: Judging, suite: str, kind: str) -> dict[str, object]:
    [found] = [item for item in judging.verdicts[suite]["results"] if item["type"] == kind]
    return dict(found)

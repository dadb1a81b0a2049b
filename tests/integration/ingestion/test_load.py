import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from ingestion import load
from ingestion.artifacts import Measured, delete_artifact_rows, measure_artifacts
from ingestion.client import SourceClient
from ingestion.demo_api.server import DemoServer
from ingestion.errors import IngestionConfigurationError, LoadError
from ingestion.fetch import fetch_partition
from ingestion.load import LoadItem, load_spooled_partitions, prepare_staging
from ingestion.partitions import SNAPSHOT, Partition, day_windows
from ingestion.quarantine import insert_rejected
from ingestion.sources import get_resource, get_source
from ingestion.spool import discard_spooled, read_rejected
from orchestration.warehouse.connections import Role, Warehouse

FLIGHTS = get_source("flights")
Fetch = Callable[..., LoadItem]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def fetch(environ: dict[str, str], spool: Path) -> Fetch:
    with SourceClient(FLIGHTS, environ) as client:

        def run(name: str, window: str, artifact_id: str) -> LoadItem:
            resource = get_resource(f"flights.{name}")
            partition = Partition(resource.full_name, window)
            fetched = fetch_partition(
                resource,
                partition,
                environ=environ,
                run_id="r_test",
                spool_dir=spool,
                client=client,
            )
            return LoadItem(artifact_id, partition, "r_test", fetched, spool)

        yield run


def load_as_extractor(database: Warehouse, items: list[LoadItem], work_dir: Path) -> None:
    load_spooled_partitions(database.bulk_url(Role.EXTRACTOR), items, work_dir=work_dir)


def measure(database: Warehouse, name: str, *artifact_ids: str) -> dict[str, Measured]:
    with database.connect(Role.EXTRACTOR) as connection:
        return measure_artifacts(connection, get_resource(f"flights.{name}"), artifact_ids)


def test_two_months_arrive_exactly_as_the_data_holds_them(
    database: Warehouse, fetch: Fetch, tmp_path: Path, spool: Path
) -> None:
    windows = {name: day_windows("2013-01-01..2013-02-28") for name in ("flights", "weather")}
    windows |= {name: [SNAPSHOT] for name in ("planes", "airlines", "airports")}
    items = [
        fetch(name, window, f"a_{name}_{window}")
        for name, wanted in windows.items()
        for window in wanted
    ]
    load_as_extractor(database, items, tmp_path / "work")

    counts: Counter[str] = Counter()
    for item in items:
        counts[item.partition.resource] += item.fetched.fetched
        assert item.fetched.fetched == item.fetched.accepted + item.fetched.rejected
    assert counts == {
        "flights.flights": 51_955,
        "flights.weather": 4_236,
        "flights.planes": 3_322,
        "flights.airlines": 16,
        "flights.airports": 1_458,
    }
    rejected = [record for item in items for record in read_rejected(spool, item.fetched.ref)]
    assert [(record.rule, record.payload["origin"]) for record in rejected] == [
        ("wind_speed.less_than_equal", "EWR")
    ]
    for name in windows:
        of_resource = [item for item in items if item.partition.resource == f"flights.{name}"]
        measured = measure(database, name, *(item.artifact_id for item in of_resource))
        assert {item.artifact_id: item.fetched.accepted for item in of_resource} == {
            artifact_id: each.rows for artifact_id, each in measured.items()
        }
    with database.connect() as connection:
        (never_left, delay) = connection.execute(
            "select count(*) filter (where dep_time is null), round(avg(arr_delay)::numeric, 4) "
            "from staging.flights__flights"
        ).fetchone()
        (mail,) = connection.execute(
            "select count(*) from staging.flights__flights f where f::text like '%crew.example%'"
        ).fetchone()
    assert (never_left, float(delay), mail) == (1_782, 5.8859, 0)
    assert list((tmp_path / "work").iterdir()) == []


def test_rows_say_which_artifact_partition_run_and_record_they_are(
    database: Warehouse, fetch: Fetch, tmp_path: Path
) -> None:
    load_as_extractor(database, [fetch("airlines", SNAPSHOT, "a_1")], tmp_path)
    with database.connect() as connection:
        rows = connection.execute("select * from staging.flights__airlines").fetchall()
    assert (
        "9E",
        "Endeavor Air Inc.",
        "a_1",
        "flights.airlines/snapshot@1",
        "r_test",
        "/v1/airlines?page=1#0",
    ) in rows


def test_the_checksum_is_that_of_the_content_alone(
    database: Warehouse, fetch: Fetch, demo: DemoServer, tmp_path: Path
) -> None:
    first, second = (fetch("weather", "2013-02-12", artifact) for artifact in ("a_1", "a_2"))
    demo.correct("weather", "2013-02-12", changes=[({"origin": "JFK", "hour": 5}, {"temp": 40.0})])
    third = fetch("weather", "2013-02-12", "a_3")
    load_as_extractor(database, [first, second, third], tmp_path)
    with database.connect() as connection:
        connection.execute(
            "create temp table again as select * from staging.flights__weather "
            "where _artifact_id = 'a_1' order by random(); "
            "update again set _artifact_id = 'a_4', _partition = 'p', _source_ref = 's'; "
            "insert into staging.flights__weather select * from again"
        )
    measured = measure(database, "weather", "a_1", "a_2", "a_3", "a_4", "a_none")
    assert measured["a_1"] == measured["a_2"] == measured["a_4"]
    assert measured["a_1"].rows == 71
    assert measured["a_3"].rows == 71
    assert measured["a_3"].checksum != measured["a_1"].checksum
    assert measured["a_none"] == Measured(0, "0")


def test_the_checksum_does_not_depend_on_the_session(
    database: Warehouse, fetch: Fetch, tmp_path: Path
) -> None:
    load_as_extractor(database, [fetch("weather", "2013-02-12", "a_1")], tmp_path)
    resource = get_resource("flights.weather")
    expected = measure(database, "weather", "a_1")
    with database.connect() as connection:
        connection.execute("set timezone to 'Asia/Kolkata'")
        connection.execute("set datestyle to 'German'")
        assert measure_artifacts(connection, resource, ["a_1"]) == expected


def test_a_column_that_a_contract_gains_leaves_old_checksums_as_they_are(
    database: Warehouse, fetch: Fetch, tmp_path: Path
) -> None:
    planes = get_resource("flights.planes")
    load_as_extractor(database, [fetch("planes", SNAPSHOT, "a_1")], tmp_path)
    before = measure(database, "planes", "a_1")
    old = replace(planes.contract, record=_without_speed(planes.contract.record))
    with database.connect() as connection:
        connection.execute("update staging.flights__planes set speed = null")
        after = measure_artifacts(connection, planes, ["a_1"])
        as_before_the_gain = measure_artifacts(connection, replace(planes, contract=old), ["a_1"])
    assert after == as_before_the_gain != before


def _without_speed(record: type) -> type:
    from typing_extensions import TypedDict, get_type_hints

    hints = get_type_hints(record, include_extras=True)
    return TypedDict("Plane", {name: hint for name, hint in hints.items() if name != "speed"})


def test_the_extractor_may_add_rows_and_sweep_and_nothing_else(database: Warehouse) -> None:
    for statement in (
        "update staging.flights__airlines set name = ''",
        "truncate staging.flights__airlines",
        "drop table staging.flights__airlines",
        "alter table staging.flights__airlines add column x text",
        "create table staging.x (a text)",
        "delete from staging._dlt_loads",
    ):
        with (
            database.connect(Role.EXTRACTOR) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(statement)


def test_a_sweeper_may_delete_what_was_abandoned(
    database: Warehouse, fetch: Fetch, tmp_path: Path
) -> None:
    prepare_staging(database.url(), FLIGHTS.resources, sweeper=Role.EXTRACTOR)
    items = [fetch("airlines", SNAPSHOT, artifact) for artifact in ("a_1", "a_2")]
    load_as_extractor(database, items, tmp_path)
    with database.connect(Role.EXTRACTOR) as connection:
        assert delete_artifact_rows(connection, get_resource("flights.airlines"), ["a_1"]) == 16
    assert [each.rows for each in measure(database, "airlines", "a_1", "a_2").values()] == [0, 16]


def test_preparing_twice_and_by_several_at_once_changes_nothing(database: Warehouse) -> None:
    with database.connect(autocommit=True) as connection:
        connection.execute("drop schema staging cascade")
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(prepare_staging, database.url(), FLIGHTS.resources, loader=Role.EXTRACTOR)
    prepare_staging(database.url(), FLIGHTS.resources, loader=Role.EXTRACTOR, readers=[Role.GATE])
    with database.connect(Role.GATE) as connection:
        rows = connection.execute(
            "select count(*) from staging.flights__weather where _artifact_id = 'x'"
        ).fetchone()
    assert rows == (0,)


def test_a_gained_column_is_added_and_a_retyped_one_is_refused(database: Warehouse) -> None:
    with database.connect(autocommit=True) as connection:
        connection.execute("drop view live.flights__planes")
        connection.execute("alter table staging.flights__planes drop column speed")
        prepare_staging(database.url(), FLIGHTS.resources)
        connection.execute("select speed from staging.flights__planes")
        connection.execute("alter table staging.flights__planes alter seats type integer")
    with pytest.raises(IngestionConfigurationError, match=r"planes\.seats is integer"):
        prepare_staging(database.url(), FLIGHTS.resources)


def test_a_column_that_the_contract_gave_up_does_not_disturb_a_load(
    database: Warehouse, fetch: Fetch, tmp_path: Path
) -> None:
    with database.connect(autocommit=True) as connection:
        connection.execute("alter table staging.flights__airlines add column former text")
    load_as_extractor(database, [fetch("airlines", SNAPSHOT, "a_1")], tmp_path)
    assert measure(database, "airlines", "a_1")["a_1"].rows == 16


@pytest.mark.parametrize(
    ("spoil", "code", "sqlstate"),
    [
        (
            "revoke insert on staging.flights__flights from sluice_extractor",
            "load_refused",
            "42501",
        ),
        ("drop table staging.flights__flights cascade", "load_refused", "42501"),
        (
            "alter table staging.flights__flights add check (crew_pseudonym = '')",
            "load_refused",
            "23514",
        ),
    ],
)
def test_a_refused_load_is_permanent_and_quotes_no_row(
    database: Warehouse,
    fetch: Fetch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    spoil: str,
    code: str,
    sqlstate: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    with database.connect(autocommit=True) as connection:
        connection.execute(spoil)
    with pytest.raises(LoadError) as caught:
        load_as_extractor(database, [fetch("flights", "2013-01-01", "a_1")], tmp_path / "work")
    error = caught.value
    assert (error.code, error.transient, error.sqlstate) == (code, False, sqlstate)
    printed = capfd.readouterr()
    for text in (str(error), printed.out, printed.err, caplog.text):
        assert "Failing row" not in text
        assert "N14228" not in text
    assert list((tmp_path / "work").iterdir()) == []


def test_a_warehouse_that_is_away_is_transient(
    database: Warehouse, fetch: Fetch, tmp_path: Path
) -> None:
    item = fetch("airlines", SNAPSHOT, "a_1")
    with pytest.raises(LoadError) as caught:
        load_spooled_partitions(
            "postgresql://nobody:x@127.0.0.1:9/nowhere", [item], work_dir=tmp_path
        )
    assert (caught.value.code, caught.value.transient) == ("load_unavailable", True)


def test_a_lost_or_foreign_spool_file_is_told_from_a_failed_load(
    database: Warehouse, fetch: Fetch, tmp_path: Path, spool: Path
) -> None:
    item = fetch("airlines", SNAPSHOT, "a_1")
    wrong = replace(item, fetched=replace(item.fetched, accepted=17))
    with pytest.raises(LoadError, match="fetch it again") as caught:
        load_as_extractor(database, [wrong], tmp_path)
    assert caught.value.code == "load_spool_changed"
    discard_spooled(spool, item.fetched.ref)
    with pytest.raises(LoadError, match="fetch them again") as caught:
        load_as_extractor(database, [item], tmp_path)
    assert (caught.value.code, caught.value.transient) == ("load_spool_missing", True)


def test_a_missing_driver_is_found_before_anything_is_loaded(
    database: Warehouse, fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_postgresql", None)
    with pytest.raises(LoadError) as caught:
        load.check_driver()
    assert caught.value.code == "load_driver_missing"


def test_nothing_to_load_is_nothing_to_do(tmp_path: Path) -> None:
    load_spooled_partitions("postgresql://nobody:x@127.0.0.1:9/x", [], work_dir=tmp_path)


def test_an_empty_partition_loads_nothing(
    database: Warehouse, fetch: Fetch, tmp_path: Path
) -> None:
    load_as_extractor(database, [fetch("weather", "2013-12-31", "a_1")], tmp_path)
    assert measure(database, "weather", "a_1")["a_1"] == Measured(0, "0")


def test_rejected_records_are_kept_once_and_without_the_address(
    database: Warehouse, fetch: Fetch, demo: DemoServer, spool: Path
) -> None:
    demo.set_fault("malformed_record", resource="flights", page=1, position=3, field="crew_email")
    demo.set_fault("nul_character", resource="flights", page=2, position=0)
    item = fetch("flights", "2013-01-01", "a_1")
    rejected = read_rejected(spool, item.fetched.ref)
    with database.connect(Role.EXTRACTOR) as connection:
        connection.execute(
            "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
            "partition, run_id, lease_name, fence) values ('a_1', 'flights', 'flights.flights', "
            "'2013-01-01', 1, %s, 'r_test', 'l', 1)",
            [str(item.partition)],
        )
        about = {
            "pipeline": "flights",
            "partition": item.partition,
            "artifact_id": "a_1",
            "run_id": "r_test",
            "contract_version": "1",
        }
        assert insert_rejected(connection, rejected, **about) == 2
        assert insert_rejected(connection, rejected, **about) == 0
        assert insert_rejected(connection, [], **about) == 0
        rows = connection.execute(
            "select rule, field, source_ref, payload::text from quarantine.records "
            "order by record_id"
        ).fetchall()
    assert [row[:3] for row in rows] == [
        ("crew_email.string_type", "crew_email", "/v1/flights?date=2013-01-01&page=1#3"),
        ("tailnum.nul_character", "tailnum", "/v1/flights?date=2013-01-01&page=2#0"),
    ]
    assert all("crew_email" not in row[3] and "@" not in row[3] for row in rows)

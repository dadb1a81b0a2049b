import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from ingestion.client import RetryPolicy, SourceClient
from ingestion.demo_api.server import DemoServer
from ingestion.errors import (
    ContractVersionError,
    FetchStopped,
    IngestionConfigurationError,
    SourceError,
)
from ingestion.fetch import check_source, fetch_partition
from ingestion.partitions import Partition
from ingestion.sources import get_resource, get_source
from ingestion.spool import Fetched, read_rejected, read_rows

QUICK = RetryPolicy(attempts=3, timeout_s=2, total_s=20, first_wait_s=0.01, longest_wait_s=0.05)
EMAIL = b"crew.example"

Fetch = Callable[..., Fetched]


@pytest.fixture
def fetch(environ: dict[str, str], tmp_path: Path) -> Fetch:
    def run(name: str, window: str, policy: RetryPolicy = QUICK, **options: object) -> Fetched:
        resource = get_resource(f"flights.{name}")
        with SourceClient(get_source("flights"), environ, policy=policy) as client:
            return fetch_partition(
                resource,
                Partition(resource.full_name, window),
                environ=environ,
                run_id="r_test",
                spool_dir=tmp_path,
                client=client,
                **options,
            )

    yield run
    for path in tmp_path.rglob("*"):
        assert EMAIL not in path.read_bytes()
        assert not path.name.endswith(".draft")


def test_a_day_of_flights_arrives_whole_over_its_pages(fetch: Fetch, tmp_path: Path) -> None:
    pages: list[tuple[int, int]] = []
    fetched = fetch("flights", "2013-01-01", on_page=lambda *seen: pages.append(seen))
    assert pages == [(500, 842), (842, 842)]
    assert (fetched.fetched, fetched.accepted, fetched.rejected) == (842, 842, 0)
    table = read_rows(tmp_path, fetched.ref)
    refs = table.column("_source_ref").to_pylist()
    assert refs[0] == "/v1/flights?date=2013-01-01&page=1#0"
    assert refs[-1] == "/v1/flights?date=2013-01-01&page=2#341"
    assert "crew_email" not in table.column_names
    assert {len(value) for value in table.column("crew_pseudonym").to_pylist()} == {32}


def test_the_impossible_wind_of_february_is_rejected_and_shown(
    fetch: Fetch, tmp_path: Path
) -> None:
    fetched = fetch("weather", "2013-02-12")
    assert (fetched.fetched, fetched.accepted, fetched.rejected) == (72, 71, 1)
    (rejected,) = read_rejected(tmp_path, fetched.ref)
    assert rejected.rule == "wind_speed.less_than_equal"
    assert "1,048" in rejected.error
    assert (rejected.payload["origin"], rejected.payload["time_hour"]) == (
        "EWR",
        "2013-02-12T08:00:00Z",
    )


def test_a_day_without_records_is_an_empty_partition(fetch: Fetch) -> None:
    fetched = fetch("weather", "2013-12-31")
    assert (fetched.fetched, fetched.accepted, fetched.rejected) == (0, 0, 0)


def test_the_hour_that_occurs_twice_is_two_records(fetch: Fetch) -> None:
    fetched = fetch("weather", "2013-11-03")
    assert (fetched.accepted, fetched.rejected) == (fetched.fetched, 0)


@pytest.mark.parametrize("name", ["planes", "airlines", "airports"])
def test_a_snapshot_is_fetched_whole(fetch: Fetch, name: str) -> None:
    expected = {"planes": 3322, "airlines": 16, "airports": 1458}[name]
    assert fetch(name, "snapshot").accepted == expected


@pytest.mark.parametrize(
    "fault", ["server_error", "rate_limited", "truncated_body", "invalid_json", "time_out"]
)
def test_what_passes_by_itself_is_tried_again_and_leaves_no_trace(
    fetch: Fetch, demo: DemoServer, fault: str
) -> None:
    seconds = {"rate_limited": {"seconds": 0}, "time_out": {"seconds": 1}}.get(fault, {})
    demo.set_fault(fault, resource="flights", page=2, times=2, **seconds)
    fetched = fetch("flights", "2013-01-01", replace(QUICK, timeout_s=0.5))
    assert (fetched.accepted, fetched.rejected) == (842, 0)
    assert not demo.faults()


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("server_error", "source_unavailable"),
        ("rate_limited", "source_rate_limited"),
        ("truncated_body", "source_truncated"),
        ("invalid_json", "source_invalid_json"),
        ("time_out", "source_timeout"),
    ],
)
def test_what_does_not_pass_ends_as_transient_and_keeps_nothing(
    fetch: Fetch, demo: DemoServer, tmp_path: Path, fault: str, code: str
) -> None:
    seconds = {"rate_limited": {"seconds": 0}, "time_out": {"seconds": 1}}.get(fault, {})
    demo.set_fault(fault, resource="flights", page=2, **seconds)
    with pytest.raises(SourceError) as caught:
        fetch("flights", "2013-01-01", replace(QUICK, timeout_s=0.3))
    assert (caught.value.code, caught.value.transient) == (code, True)
    assert list(tmp_path.iterdir()) == []


def test_an_expired_token_stops_at_once_and_appears_in_no_message(
    fetch: Fetch, demo: DemoServer
) -> None:
    demo.set_fault("expired_token", times=1)
    with pytest.raises(SourceError, match="set a valid one in SLUICE_FLIGHTS_API_TOKEN") as caught:
        fetch("flights", "2013-01-01")
    assert (caught.value.code, caught.value.transient) == ("source_unauthorized", False)
    assert demo.token not in str(caught.value)


def test_an_unsupported_schema_version_stops_at_once(fetch: Fetch, demo: DemoServer) -> None:
    demo.set_fault("unsupported_schema_version", page=2, times=1)
    with pytest.raises(ContractVersionError):
        fetch("flights", "2013-01-01")


@pytest.mark.parametrize("field", ["distance", "carrier", "crew_email", "time_hour", "dep_delay"])
def test_a_malformed_record_alone_is_rejected(
    fetch: Fetch, demo: DemoServer, tmp_path: Path, field: str
) -> None:
    demo.set_fault("malformed_record", resource="flights", page=1, position=7, field=field)
    fetched = fetch("flights", "2013-01-01")
    assert (fetched.accepted, fetched.rejected) == (841, 1)
    (rejected,) = read_rejected(tmp_path, fetched.ref)
    assert rejected.source_ref == "/v1/flights?date=2013-01-01&page=1#7"
    assert rejected.field == field
    assert rejected.rule.startswith(f"{field}.")


@pytest.mark.parametrize("field", ["carrier", "crew_email", "tailnum"])
def test_a_missing_field_rejects_every_record_that_lacks_it(
    fetch: Fetch, demo: DemoServer, tmp_path: Path, field: str
) -> None:
    demo.set_fault("missing_field", resource="flights", page=2, field=field)
    fetched = fetch("flights", "2013-01-01")
    assert (fetched.accepted, fetched.rejected) == (500, 342)
    assert {record.rule for record in read_rejected(tmp_path, fetched.ref)} == {f"{field}.missing"}


def test_an_extra_field_is_noted_by_name_and_its_values_are_kept_nowhere(
    fetch: Fetch, demo: DemoServer, tmp_path: Path
) -> None:
    demo.set_fault("extra_field", resource="flights", page=2)
    fetched = fetch("flights", "2013-01-01")
    assert (fetched.accepted, fetched.unexpected_fields) == (842, ("unannounced_field",))
    assert all(b"surprise" not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_duplicated_page_is_rejected_record_by_record(
    fetch: Fetch, demo: DemoServer, tmp_path: Path
) -> None:
    demo.set_fault("duplicated_page", resource="flights", date="2013-01-01", page=1)
    fetched = fetch("flights", "2013-01-01")
    assert (fetched.fetched, fetched.accepted, fetched.rejected) == (1342, 842, 500)
    assert {record.rule for record in read_rejected(tmp_path, fetched.ref)} == {"duplicate_key"}


def test_a_nul_character_is_rejected_and_stored_as_an_escape(
    fetch: Fetch, demo: DemoServer, tmp_path: Path
) -> None:
    demo.set_fault("nul_character", resource="flights", page=1, position=0)
    fetched = fetch("flights", "2013-01-01")
    (rejected,) = read_rejected(tmp_path, fetched.ref)
    assert rejected.rule == "tailnum.nul_character"
    assert "\0" not in rejected.payload["tailnum"]
    assert "\\u0000" in rejected.payload["tailnum"]


def test_the_source_is_left_alone_for_as_long_as_it_asks(fetch: Fetch, demo: DemoServer) -> None:
    demo.set_fault("rate_limited", resource="airlines", times=1, seconds=1)
    started = monotonic()
    fetch("airlines", "snapshot")
    assert monotonic() - started >= 1


def test_a_longer_wait_than_the_time_left_is_not_begun(fetch: Fetch, demo: DemoServer) -> None:
    demo.set_fault("rate_limited", resource="airlines", seconds=600)
    started = monotonic()
    with pytest.raises(SourceError) as caught:
        fetch("airlines", "snapshot")
    assert caught.value.retry_after == 600
    assert monotonic() - started < 5


def test_a_used_up_budget_stops_between_pages_and_keeps_nothing(
    fetch: Fetch, tmp_path: Path
) -> None:
    pages: list[int] = []
    with pytest.raises(FetchStopped):
        fetch(
            "flights",
            "2013-01-01",
            on_page=lambda seen, _: pages.append(seen),
            stop=lambda: bool(pages),
        )
    assert pages == [500]
    assert list(tmp_path.iterdir()) == []


def test_a_used_up_budget_stops_before_a_wait(fetch: Fetch, demo: DemoServer) -> None:
    demo.set_fault("rate_limited", resource="airlines", seconds=5)
    asked: list[bool] = []

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 1

    started = monotonic()
    with pytest.raises(FetchStopped):
        fetch("airlines", "snapshot", stop=stop)
    assert monotonic() - started < 3


def test_a_missing_key_or_address_is_found_before_anything_is_fetched(
    demo: DemoServer, environ: dict[str, str], tmp_path: Path
) -> None:
    demo.set_fault("server_error")
    source = get_source("flights")
    assert check_source(source, environ) == []
    for name in environ:
        lacking = environ | {name: ""}
        assert check_source(source, lacking) == [name]
        with pytest.raises(IngestionConfigurationError, match=name):
            fetch_partition(
                get_resource("flights.flights"),
                Partition("flights.flights", "2013-01-01"),
                environ=lacking,
                run_id="r",
                spool_dir=tmp_path,
            )
    assert check_source(source, {}) == list(environ)


def test_a_source_that_is_away_is_transient(tmp_path: Path, environ: dict[str, str]) -> None:
    away = environ | {"SLUICE_FLIGHTS_API_URL": "http://127.0.0.1:9", "SLUICE_FETCH_ATTEMPTS": "1"}
    with pytest.raises(SourceError, match="SLUICE_FLIGHTS_API_URL") as caught:
        fetch_partition(
            get_resource("flights.airlines"),
            Partition("flights.airlines", "snapshot"),
            environ=away,
            run_id="r",
            spool_dir=tmp_path,
        )
    assert (caught.value.code, caught.value.transient) == ("source_unavailable", True)


def test_the_same_content_fetched_twice_has_the_same_rows(fetch: Fetch, tmp_path: Path) -> None:
    first, second = fetch("weather", "2013-02-12"), fetch("weather", "2013-02-12")
    tables = [read_rows(tmp_path, each.ref) for each in (first, second)]
    assert tables[0].equals(tables[1])
    assert first.ref != second.ref


def test_what_a_fetch_says_of_itself_is_json(fetch: Fetch) -> None:
    fetched = fetch("airlines", "snapshot")
    assert Fetched.from_json(json.loads(json.dumps(fetched.to_json()))) == fetched


def test_ingestion_runs_on_its_own(
    environ: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ingestion.__main__ import main

    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert (
        main(["fetch", "flights.weather", "2013-02-11..2013-02-12", "--spool", str(tmp_path)]) == 0
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["rejected"] for line in lines] == [0, 1]
    assert main(["fetch", "flights.airlines", "--spool", str(tmp_path)]) == 0
    assert main(["fetch", "flights.nothing"]) == 1
    assert "the resources of flights are" in capsys.readouterr().err

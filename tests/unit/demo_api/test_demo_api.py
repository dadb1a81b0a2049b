"""The demo service serves exactly the data, by pages, to those who have the token."""

import datetime as dt
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ingestion.demo_api.server import DemoServer

DAY = "2013-01-05"
FLIGHTS = f"/v1/flights?date={DAY}"
WEATHER = f"/v1/weather?date={DAY}"
Read = Callable[[str], list[dict[str, Any]]]
SetFault = Callable[..., int]


@pytest.mark.parametrize(("resource", "expected"), [("flights", 51_955), ("weather", 4_236)])
def test_two_months_hold_exactly_the_data(read: Read, resource: str, expected: int) -> None:
    days = [dt.date(2013, 1, 1) + dt.timedelta(offset) for offset in range(59)]
    assert sum(len(read(f"/v1/{resource}?date={day}")) for day in days) == expected


@pytest.mark.parametrize(
    ("resource", "expected"), [("airlines", 16), ("airports", 1_458), ("planes", 3_322)]
)
def test_a_snapshot_holds_exactly_the_data(read: Read, resource: str, expected: int) -> None:
    assert len(read(f"/v1/{resource}")) == expected


def test_a_flight_has_the_columns_of_the_file_and_an_invented_address(
    client: httpx.Client,
) -> None:
    first = client.get("/v1/flights?date=2013-01-01").json()["records"][0]
    address = first.pop("crew_email")
    assert re.fullmatch(r"[a-z]+\.[a-z]+\.[0-9a-f]{4}@crew\.example", address)
    assert first == {
        "year": 2013, "month": 1, "day": 1, "dep_time": 517, "sched_dep_time": 515,
        "dep_delay": 2.0, "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11.0,
        "carrier": "UA", "flight": 1545, "tailnum": "N14228", "origin": "EWR", "dest": "IAH",
        "air_time": 227.0, "distance": 1400, "hour": 5, "minute": 15,
        "time_hour": "2013-01-01T10:00:00Z",
    }  # fmt: skip
    assert list(first)[0:3] == ["year", "month", "day"]
    assert isinstance(first["dep_delay"], float)


def test_absent_values_are_null(client: httpx.Client) -> None:
    cancelled = client.get("/v1/flights?date=2013-02-28&page=2").json()["records"][-1]
    assert cancelled["dep_time"] is None
    assert cancelled["tailnum"] is None


def test_the_impossible_wind_speed_is_served_as_it_is(
    read: Read,
) -> None:
    windy = [
        record
        for record in read("/v1/weather?date=2013-02-12")
        if (record["wind_speed"] or 0) > 1_000
    ]
    assert [(r["origin"], r["time_hour"], r["wind_speed"]) for r in windy] == [
        ("EWR", "2013-02-12T08:00:00Z", 1048.36058)
    ]


def test_a_page_tells_where_it_belongs_and_what_follows(client: httpx.Client) -> None:
    first = client.get(FLIGHTS).json()
    assert {name: first[name] for name in first if name != "records"} == {
        "schema_version": "1",
        "resource": "flights",
        "date": DAY,
        "page": 1,
        "next": f"/v1/flights?date={DAY}&page=2",
        "total_records": 720,
    }
    second = client.get(first["next"]).json()
    assert (len(first["records"]), len(second["records"])) == (500, 220)
    assert second["next"] is None
    assert client.get("/v1/planes").json()["next"] == "/v1/planes?page=2"
    assert client.get("/v1/planes").json()["date"] is None


@pytest.mark.parametrize("link", ["/v1/weather?date=2013-12-31", "/v1/flights?date=2014-01-01"])
def test_a_day_without_data_is_one_empty_page(client: httpx.Client, link: str) -> None:
    answer = client.get(link).raise_for_status().json()
    assert (answer["records"], answer["next"], answer["total_records"]) == ([], None, 0)


@pytest.mark.parametrize(
    ("link", "status"),
    [
        ("/v1/hotels", 404),
        ("/elsewhere", 404),
        ("/v1/flights", 400),
        ("/v1/flights?date=2013-02-30", 400),
        ("/v1/flights?date=20130201", 400),
        ("/v1/planes?date=2013-01-01", 400),
        ("/v1/planes?page=0", 400),
        ("/v1/planes?page=x", 400),
    ],
)
def test_a_wrong_address_is_refused(client: httpx.Client, link: str, status: int) -> None:
    answer = client.get(link)
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "message"}


@pytest.mark.parametrize(
    "header", [None, "Bearer wrong", "Bearer", "demo-token", "Basic demo-token", "x\xff"]
)
@pytest.mark.parametrize("link", [FLIGHTS, "/control/faults"])
def test_without_the_token_nothing_is_served(
    server: DemoServer, link: str, header: str | None
) -> None:
    headers = {} if header is None else {b"Authorization": header.encode("latin-1")}
    answer = httpx.get(server.url + link, headers=headers, trust_env=False)
    assert answer.status_code == 401
    assert answer.json()["error"] == "unauthorized"


def test_health_needs_no_token(server: DemoServer) -> None:
    assert httpx.get(f"{server.url}/healthz", trust_env=False).status_code == 200

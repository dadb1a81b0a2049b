"""Each fault of the demo service does what it says, as often as it was told."""

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

DAY = "2013-01-05"
FLIGHTS = f"/v1/flights?date={DAY}"
WEATHER = f"/v1/weather?date={DAY}"
Read = Callable[[str], list[dict[str, Any]]]
SetFault = Callable[..., int]


def test_a_server_error_strikes_as_often_as_told(set_fault: SetFault, client: httpx.Client) -> None:
    set_fault(fault="server_error", resource="flights", date=DAY, page=1, times=2)
    assert client.get(f"{FLIGHTS}&page=2").status_code == 200
    assert client.get("/v1/flights?date=2013-01-06").status_code == 200
    assert [client.get(FLIGHTS).status_code for _ in range(3)] == [500, 500, 200]
    assert client.get("/control/faults").json() == {"faults": []}


def test_a_rate_limit_says_when_to_try_again(set_fault: SetFault, client: httpx.Client) -> None:
    set_fault(fault="rate_limited", seconds=7, times=1)
    answer = client.get("/v1/airlines")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    assert client.get("/v1/airlines").status_code == 200


def test_a_time_out_answers_late_and_others_are_served_meanwhile(
    set_fault: SetFault, client: httpx.Client
) -> None:
    set_fault(fault="time_out", resource="weather", seconds=30, times=1)
    with pytest.raises(httpx.ReadTimeout):
        client.get(WEATHER, timeout=0.3)
    began = time.monotonic()
    assert client.get(FLIGHTS).status_code == 200
    set_fault(fault="time_out", resource="weather", seconds=0.4, times=1)
    assert client.get(WEATHER).status_code == 200
    assert 0.4 <= time.monotonic() - began < 5


def test_a_truncated_body_breaks_off(read: Read, set_fault: SetFault, client: httpx.Client) -> None:
    set_fault(fault="truncated_body", resource="flights", times=1)
    with pytest.raises(httpx.RemoteProtocolError):
        client.get(FLIGHTS)
    assert len(read(FLIGHTS)) == 720


def test_invalid_json_is_a_complete_answer_that_does_not_parse(
    set_fault: SetFault, client: httpx.Client
) -> None:
    set_fault(fault="invalid_json", resource="flights")
    answer = client.get(FLIGHTS)
    assert answer.status_code == 200
    with pytest.raises(ValueError, match="Expecting"):
        answer.json()


def test_a_malformed_record_is_one_record_of_the_page(
    read: Read,
    set_fault: SetFault,
) -> None:
    before = read(FLIGHTS)
    set_fault(fault="malformed_record", resource="flights", page=2, position=7)
    after = read(FLIGHTS)
    assert [at for at in range(720) if before[at] != after[at]] == [507]
    assert after[507] == before[507] | {"distance": "not a number"}


@pytest.mark.parametrize("resource", ["flights", "weather", "planes", "airlines", "airports"])
@pytest.mark.parametrize("fault", ["malformed_record", "missing_field", "nul_character"])
def test_a_fault_in_records_fits_each_resource(
    set_fault: SetFault, client: httpx.Client, resource: str, fault: str
) -> None:
    link = f"/v1/{resource}" + (f"?date={DAY}" if resource in ("flights", "weather") else "")
    before = client.get(link).json()["records"]
    set_fault(fault=fault, resource=resource, position=3)
    after = client.get(link).json()["records"]
    assert [
        at for at, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]
    ] == [3]


def test_a_missing_field_misses_in_every_record_unless_told_which(
    set_fault: SetFault, client: httpx.Client
) -> None:
    set_fault(fault="missing_field", resource="flights", page=1)
    assert all("carrier" not in r for r in client.get(FLIGHTS).json()["records"])
    client.delete("/control/faults")
    set_fault(fault="missing_field", resource="flights", field="dest", position=1)
    records = client.get(FLIGHTS).json()["records"]
    assert [at for at, r in enumerate(records) if "dest" not in r] == [1]


def test_an_extra_field_is_added(
    read: Read,
    set_fault: SetFault,
) -> None:
    set_fault(fault="extra_field", field="gate")
    assert all(r["gate"] == "surprise" for r in read(WEATHER))


def test_a_duplicated_page_is_served_again_and_counted(
    read: Read,
    set_fault: SetFault,
) -> None:
    once = read(FLIGHTS)
    set_fault(fault="duplicated_page", resource="flights", date=DAY, page=1, times=1)
    twice = read(FLIGHTS)
    assert twice == once[:500] + once
    assert read(FLIGHTS) == once


def test_a_short_page_lost_its_second_half_and_the_total_did_not_notice(
    set_fault: SetFault, client: httpx.Client
) -> None:
    whole = client.get(f"{FLIGHTS}&page=2").json()
    set_fault(fault="short_page", resource="flights", date=DAY, page=2, times=1)
    short = client.get(f"{FLIGHTS}&page=2").json()
    assert short == whole | {"records": whole["records"][:110]}
    assert client.get(f"{FLIGHTS}&page=2").json() == whole


def test_an_expired_token_reads_as_expired(set_fault: SetFault, client: httpx.Client) -> None:
    set_fault(fault="expired_token", resource="planes")
    answer = client.get("/v1/planes")
    assert (answer.status_code, answer.json()["error"]) == (401, "token_expired")
    assert "expired" in answer.headers["WWW-Authenticate"]


def test_an_unsupported_schema_version_is_told(set_fault: SetFault, client: httpx.Client) -> None:
    set_fault(fault="unsupported_schema_version", resource="airports", page=2)
    versions = [client.get(f"/v1/airports?page={n}").json()["schema_version"] for n in (1, 2, 3)]
    assert versions == ["1", "99", "1"]


def test_a_nul_character_is_in_one_text(set_fault: SetFault, client: httpx.Client) -> None:
    set_fault(fault="nul_character", resource="flights")
    answer = client.get(FLIGHTS)
    assert answer.text.count("\\u0000") == 1
    assert "\x00" in answer.json()["records"][0]["tailnum"]


def test_faults_are_listed_removed_and_cleared(set_fault: SetFault, client: httpx.Client) -> None:
    first = set_fault(fault="server_error")
    second = set_fault(fault="rate_limited", times=4)
    listed = client.get("/control/faults").json()["faults"]
    assert [(f["id"], f["fault"], f["times_left"]) for f in listed] == [
        (first, "server_error", None),
        (second, "rate_limited", 4),
    ]
    assert client.delete(f"/control/faults/{first}").status_code == 204
    assert client.delete(f"/control/faults/{first}").status_code == 404
    assert client.get("/v1/airlines").status_code == 429
    assert client.delete("/control/faults").status_code == 204
    assert client.get("/v1/airlines").status_code == 200


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"fault": "earthquake"}, "fault"),
        ({"fault": "server_error", "tmies": 1}, "tmies"),
        ({"fault": "server_error", "times": "1"}, "times"),
        ({"fault": "server_error", "date": "tomorrow"}, "date"),
        ({"fault": "server_error", "position": 1}, "body"),
        ({"fault": "missing_field", "resource": "planes", "field": "wings"}, "body"),
        ({"fault": "server_error", "resource": "planes", "date": DAY}, "body"),
        ([], "body"),
    ],
)
def test_an_unclear_fault_is_refused_whole(
    client: httpx.Client, payload: object, field: str
) -> None:
    answer = client.post("/control/faults", json=payload)
    assert answer.status_code == 422
    assert [detail["field"] for detail in answer.json()["details"]] == [field]
    assert client.get("/control/faults").json() == {"faults": []}

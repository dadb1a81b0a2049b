import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from ingestion.answers import Page, read_page
from ingestion.errors import ContractVersionError, SourceError
from ingestion.partitions import Partition
from ingestion.sources import get_resource
from ingestion.statuses import retry_after_seconds, status_error

WEATHER = get_resource("flights.weather")
PARTITION = Partition("flights.weather", "2013-02-12")
REF = "/v1/weather?date=2013-02-12&page=2"
ANSWER: dict[str, Any] = {
    "schema_version": "1",
    "resource": "weather",
    "date": "2013-02-12",
    "page": 2,
    "records": [],
    "next": None,
    "total_records": 0,
}


def read(answer: Any) -> Page:
    return read_page(json.dumps(answer).encode(), REF, WEATHER, PARTITION)


WEATHER_RECORD = {
    "origin": "EWR",
    "year": 2013,
    "month": 2,
    "day": 12,
    "hour": 3,
    "temp": 39.02,
    "dewp": None,
    "humid": 61.63,
    "wind_dir": 260,
    "wind_speed": 8.05,
    "wind_gust": None,
    "precip": 0,
    "pressure": 1008.3,
    "visib": 10,
    "time_hour": "2013-02-12T08:00:00Z",
}


def test_records_arrive_as_the_source_wrote_them_whatever_they_hold() -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"wind_speed": 1048.4},
        {"surprise": 1},
        {"origin": "E\0R"},
        {"temp": float("inf")},
        {"visib": "1"},
    ]
    records = [WEATHER_RECORD | change for change in changes]
    answer = ANSWER | {"records": records, "extra": "a page may say more"}
    body = json.dumps(answer).replace("Infinity", "1e999")
    page = read_page(body.encode(), REF, WEATHER, PARTITION)
    assert (page.records, page.source_ref) == (records, REF)


@pytest.mark.parametrize(
    "answer",
    [
        [],
        None,
        {},
        ANSWER | {"schema_version": 1},
        ANSWER | {"records": {}},
        ANSWER | {"total_records": "0"},
        ANSWER | {"total_records": True},
        ANSWER | {"total_records": -1},
        ANSWER | {"next": 5},
        ANSWER | {"resource": "flights"},
        ANSWER | {"date": "2013-02-13"},
    ],
)
def test_what_is_no_page_of_the_partition_is_refused(answer: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read(answer)
    assert (caught.value.code, caught.value.transient) == ("source_invalid_answer", False)


def test_an_unsupported_schema_version_is_permanent_and_says_what_is_supported() -> None:
    with pytest.raises(ContractVersionError, match=r"schema version 99, .* supports 1") as caught:
        read(ANSWER | {"schema_version": "99"})
    assert (caught.value.code, caught.value.transient) == ("source_schema_unsupported", False)


@pytest.mark.parametrize(
    ("status", "code", "transient"),
    [
        (301, "source_refused", False),
        (400, "source_refused", False),
        (401, "source_unauthorized", False),
        (403, "source_unauthorized", False),
        (404, "source_not_found", False),
        (408, "source_unavailable", True),
        (429, "source_rate_limited", True),
        (500, "source_unavailable", True),
        (503, "source_unavailable", True),
    ],
)
def test_a_status_says_whether_it_may_pass_by_itself(
    status: int, code: str, transient: bool
) -> None:
    error = status_error("flights", "SLUICE_FLIGHTS_API_TOKEN", status, None)
    assert (error.code, error.transient) == (code, transient)


def test_retry_after_is_read_as_seconds_or_as_a_date() -> None:
    assert retry_after_seconds({"Retry-After": "7"}) == 7
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 55 < (retry_after_seconds({"Retry-After": later}) or 0) <= 60
    assert retry_after_seconds({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert retry_after_seconds({"Retry-After": "soon"}) is None
    assert retry_after_seconds({"Retry-After": "-3"}) is None
    assert retry_after_seconds({}) is None

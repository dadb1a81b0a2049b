import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.checks import JudgedPage, PartitionJudge
from ingestion.partitions import Partition
from ingestion.redaction import Redactor
from ingestion.sources import get_resource

EMAIL = "ada.lovelace.1234@crew.example"
WEATHER: dict[str, Any] = {
    "origin": "EWR",
    "year": 2013,
    "month": 2,
    "day": 12,
    "hour": 3,
    "temp": 39.02,
    "dewp": 26.96,
    "humid": 61.63,
    "wind_dir": 260,
    "wind_speed": 8.05,
    "wind_gust": None,
    "precip": 0,
    "pressure": 1008.3,
    "visib": 10,
    "time_hour": "2013-02-12T08:00:00Z",
}
FLIGHT: dict[str, Any] = {
    "year": 2013,
    "month": 2,
    "day": 12,
    "dep_time": 517,
    "sched_dep_time": 515,
    "dep_delay": 2,
    "arr_time": 830,
    "sched_arr_time": 819,
    "arr_delay": 11.0,
    "carrier": "UA",
    "flight": 1545,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "air_time": 227,
    "distance": 1400,
    "hour": 5,
    "minute": 15,
    "time_hour": "2013-02-12T10:00:00Z",
    "crew_email": EMAIL,
}


def judge_of(name: str = "flights.weather") -> PartitionJudge:
    contract = get_resource(name).contract
    return PartitionJudge(contract, Partition(name, "2013-02-12"), Redactor(contract, b"key"))


def judge(records: list[Any], name: str = "flights.weather") -> JudgedPage:
    return judge_of(name).judge([*records], "/v1/x?page=1")


def test_a_good_page_is_accepted_whole() -> None:
    page = judge([WEATHER, WEATHER | {"origin": "JFK"}])
    assert (len(page.accepted), [*page.positions], page.rejected) == (2, [0, 1], [])


def test_a_bad_record_is_rejected_and_its_neighbours_are_not() -> None:
    page = judge(
        [
            WEATHER,
            WEATHER | {"origin": "JFK", "wind_speed": 1048.36058},
            WEATHER | {"origin": "LGA"},
        ]
    )
    assert page.positions == [0, 2]
    (rejected,) = page.rejected
    assert rejected.source_ref == "/v1/x?page=1#1"
    assert rejected.rule == "wind_speed.less_than_equal"
    assert rejected.field == "wind_speed"
    assert rejected.error == "wind_speed is 1,048.36 mph; at most 250 mph is allowed"
    assert rejected.payload["wind_speed"] == 1048.36058


def test_of_two_records_with_one_key_the_later_is_rejected_also_across_pages() -> None:
    judging = judge_of()
    again = WEATHER | {"time_hour": "2013-02-12T03:00:00-05:00", "temp": 1.0}
    first = judging.judge([dict(WEATHER)], "/1")
    second = judging.judge(
        [again, WEATHER | {"hour": 4, "time_hour": "2013-02-12T09:00:00Z"}],
        "/2",
    )
    assert len(first.accepted) == 1
    assert second.positions == [1]
    assert second.rejected[0].rule == "duplicate_key"
    assert second.rejected[0].error == "an earlier record has the same origin, time_hour"


def test_a_rejected_record_does_not_claim_its_key() -> None:
    page = judge([WEATHER | {"humid": 101}, WEATHER])
    assert page.positions == [1]
    assert page.rejected[0].rule == "humid.less_than_equal"


def test_a_record_of_another_day_is_rejected() -> None:
    page = judge([WEATHER | {"day": 13}])
    assert page.rejected[0].rule == "outside_window"


def test_several_broken_rules_are_one_rejection_that_names_them_all() -> None:
    record = WEATHER | {"temp": "hot", "origin": "XXX"}
    del record["hour"]
    (rejected,) = judge([record]).rejected
    assert rejected.rule == "origin.literal_error"
    assert rejected.error == (
        "origin is XXX; one of EWR, JFK, LGA is allowed; hour is missing; temp is not a number but "
        "a text; the contract asks for a number from -80 to 140 or null"
    )


@pytest.mark.parametrize(
    ("record", "rule"),
    [
        ("text", "record.dict_type"),
        (None, "record.dict_type"),
        ([FLIGHT], "record.dict_type"),
        (FLIGHT | {"distance": "far"}, "distance.int_type"),
        (FLIGHT | {"crew_email": 12345}, "crew_email.string_type"),
        (FLIGHT | {"crew_email": None}, "crew_email.string_type"),
        ({k: v for k, v in FLIGHT.items() if k != "crew_email"}, "crew_email.missing"),
        ({k: v for k, v in FLIGHT.items() if k != "carrier"}, "carrier.missing"),
        (FLIGHT | {"tailnum": {"crew_email": EMAIL}}, "tailnum.string_type"),
        (FLIGHT | {"tailnum": [EMAIL]}, "tailnum.string_type"),
        (FLIGHT | {"dest": "\ud800ab"}, "dest.string_unicode"),
        (FLIGHT | {"dest": "x" * 9000}, "dest.string_too_long"),
        (FLIGHT | {"distance": 10**400}, "distance.less_than_equal"),
        (FLIGHT | {"air_time": float("inf")}, "air_time.finite_number"),
        (FLIGHT | {"origin": EMAIL}, "origin.literal_error"),
        (FLIGHT | {"time_hour": EMAIL}, "time_hour.string_pattern_mismatch"),
    ],
)
def test_whatever_is_wrong_the_rule_has_a_name_and_the_address_is_nowhere(
    record: Any, rule: str
) -> None:
    given = dict(record) if isinstance(record, dict) else record
    (rejected,) = judge([given], "flights.flights").rejected
    assert rejected.rule == rule
    assert "\0" not in json.dumps(rejected.payload, allow_nan=False)
    assert EMAIL not in rejected.error
    if record not in (FLIGHT | {"origin": EMAIL}, FLIGHT | {"time_hour": EMAIL}):
        assert EMAIL not in json.dumps(rejected.to_json())


def test_a_nul_character_is_rejected_and_shown_as_an_escape() -> None:
    page = judge([FLIGHT | {"tailnum": "N1\x0042"}], "flights.flights")
    (rejected,) = page.rejected
    assert rejected.rule == "tailnum.nul_character"
    assert rejected.payload["tailnum"] == "N1\\u000042"


def test_a_nul_in_a_sensitive_field_is_rejected_too() -> None:
    page = judge([FLIGHT | {"crew_email": "a\0b"}], "flights.flights")
    assert page.rejected[0].rule == "crew_email.nul_character"
    assert "crew_pseudonym" not in page.rejected[0].payload


def test_unexpected_fields_are_known_by_name_and_never_by_value() -> None:
    judging = judge_of()
    page = judging.judge(
        [WEATHER | {"surprise": EMAIL, EMAIL: 1}, WEATHER | {"temp": "x", "other": EMAIL}],
        "/1",
    )
    assert judging.unexpected_fields == {"surprise", "other", "(unprintable)"}
    assert len(page.accepted) == 1
    assert EMAIL not in json.dumps([rejected.to_json() for rejected in page.rejected])


def test_a_field_named_like_the_pseudonym_does_not_pass_for_one() -> None:
    record = FLIGHT | {"crew_pseudonym": EMAIL, "crew_email": 5}
    (rejected,) = judge([record], "flights.flights").rejected
    assert EMAIL not in json.dumps(rejected.to_json())
    page = judge([FLIGHT | {"crew_pseudonym": EMAIL}], "flights.flights")
    assert (
        page.accepted[0]["crew_pseudonym"]
        == judge([dict(FLIGHT)], "flights.flights").accepted[0]["crew_pseudonym"]
    )


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
records = st.one_of(
    values,
    st.fixed_dictionaries(
        {}, optional={name: st.just(value) | values for name, value in FLIGHT.items()}
    ),
    st.builds(
        lambda changed: FLIGHT | changed, st.dictionaries(st.sampled_from([*FLIGHT]), values)
    ),
)


@given(st.lists(records, max_size=5))
def test_whatever_arrives_is_accepted_or_rejected_and_storable(page_records: list[Any]) -> None:
    given = [dict(record) if isinstance(record, dict) else record for record in page_records]
    page = judge(given, "flights.flights")
    assert len(page.accepted) + len(page.rejected) == len(page_records)
    for rejected in page.rejected:
        stored = json.dumps(rejected.payload, allow_nan=False)
        assert EMAIL not in rejected.error
        json.loads(stored.encode("utf-8"))
        assert "\\u0000" not in stored.replace("\\\\u0000", "")

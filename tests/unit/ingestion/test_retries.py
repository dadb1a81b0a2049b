"""Kept records under today's contract: as they were sent, or corrected by a person."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.checks import PartitionJudge
from ingestion.errors import IngestionConfigurationError
from ingestion.partitions import Partition
from ingestion.redaction import Redactor
from ingestion.rejections import RejectedRecord
from ingestion.retries import Judged, KeptRecord, correct_record, judge_kept, kept_judge
from ingestion.sources import get_resource

WEATHER = get_resource("flights.weather").contract
FLIGHTS = get_resource("flights.flights").contract
ENVIRON = {"SLUICE_PSEUDONYM_KEY": "a key for tests"}
EMAIL = "ada.lovelace.1234@crew.example"
HOUR: dict[str, Any] = {
    "origin": "EWR",
    "year": 2013,
    "month": 2,
    "day": 12,
    "hour": 3,
    "temp": 39.02,
    "dewp": 26.96,
    "humid": 61.63,
    "wind_dir": 260.0,
    "wind_speed": 8.05,
    "wind_gust": None,
    "precip": 0.0,
    "pressure": 1008.3,
    "visib": 10.0,
    "time_hour": "2013-02-12T08:00:00Z",
}
FLIGHT: dict[str, Any] = {
    "year": 2013,
    "month": 2,
    "day": 12,
    "dep_time": 517,
    "sched_dep_time": 515,
    "dep_delay": 2.0,
    "arr_time": 830,
    "sched_arr_time": 819,
    "arr_delay": 11.0,
    "carrier": "UA",
    "flight": 1545,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "air_time": 227.0,
    "distance": 1400,
    "hour": 5,
    "minute": 15,
    "time_hour": "2013-02-12T10:00:00Z",
    "crew_email": EMAIL,
}


def kept_of(record: Any, name: str = "flights.weather") -> KeptRecord:
    """What the quarantine keeps of a record that was rejected when it was fetched."""
    contract = get_resource(name).contract
    redactor = Redactor(contract, b"key")
    judge = PartitionJudge(contract, Partition(name, "2013-02-12"), redactor)
    [rejected] = judge.judge([record], "/v1/x?page=1").rejected
    stored = RejectedRecord.from_json(rejected.to_json())
    assert stored == rejected
    return KeptRecord(
        record_id=7,
        source_ref=stored.source_ref,
        rule=stored.rule,
        field=stored.field,
        error=stored.error,
        payload=stored.payload,
        altered=stored.altered,
    )


def judge(kept: KeptRecord, name: str = "flights.weather") -> Judged:
    contract = get_resource(name).contract
    return judge_kept(kept_judge(contract, Partition(name, "2013-02-12")), kept)


def correct(kept: KeptRecord, given: dict[str, Any], name: str = "flights.weather") -> Judged:
    corrected = correct_record(get_resource(name).contract, kept, given, ENVIRON)
    return corrected if corrected.problem else judge(corrected.kept, name)


def test_an_unchanged_record_is_refused_for_the_same_reason_as_when_it_was_fetched() -> None:
    kept = kept_of(HOUR | {"wind_speed": 1048.36058})
    problem = judge(kept).problem
    assert problem is not None
    assert (problem.rule, problem.error) == (kept.rule, kept.error)


def test_a_record_that_todays_contract_accepts_passes_without_being_redacted_again() -> None:
    # As kept under a contract that allowed less.
    kept = kept_of(FLIGHT | {"distance": 0}, "flights.flights")
    kept = replace(kept, payload=kept.payload | {"distance": 1})
    judged = judge(kept, "flights.flights")
    assert judged.record is not None
    assert judged.record["crew_pseudonym"] == kept.payload["crew_pseudonym"]
    assert kept.row_ref == kept.source_ref


def test_a_correction_replaces_the_fields_that_are_given_and_says_so_in_its_reference() -> None:
    kept = kept_of(HOUR | {"wind_speed": 1048.36058})
    judged = correct(kept, {"wind_speed": 10.36})
    assert judged.record == HOUR | {"wind_speed": 10.36}
    assert judged.kept.row_ref == "/v1/x?page=1#0;manual=record-7"
    assert judged.kept.payload == kept.payload


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"wind_speed": 251}, "wind_speed.less_than_equal"),
        ({"wind_speed": "10"}, "wind_speed.float_type"),
        ({"wind_speed": True}, "wind_speed.float_type"),
        ({"wind_speed": 10, "origin": "ORD"}, "origin.literal_error"),
        ({"wind_speed": 10, "day": 13}, "outside_window"),
        ({"wind_speed": 10, "temp": {"f": 1}}, "temp.float_type"),
    ],
)
def test_a_correction_is_judged_as_strictly_as_the_source(given: dict[str, Any], rule: str) -> None:
    problem = correct(kept_of(HOUR | {"wind_speed": 1048.36058}), given).problem
    assert problem is not None
    assert problem.rule == rule


def test_a_correction_of_fields_that_do_not_exist_is_refused_and_names_those_that_do() -> None:
    with pytest.raises(IngestionConfigurationError, match=r"\(speed\); it has origin, year") as no:
        correct_record(WEATHER, kept_of(HOUR | {"temp": 200}), {"speed": 1}, ENVIRON)
    assert no.value.code == "unknown_fields"


def test_a_field_that_names_no_field_is_not_repeated_when_it_could_be_a_value() -> None:
    kept = kept_of(FLIGHT | {"distance": 0}, "flights.flights")
    for name in (EMAIL, "crew_pseudonym and more"):
        with pytest.raises(IngestionConfigurationError) as no:
            correct_record(FLIGHTS, kept, {name: 1}, ENVIRON)
        assert name not in no.value.message


def test_a_pseudonym_cannot_be_given() -> None:
    kept = kept_of(FLIGHT | {"distance": 0}, "flights.flights")
    with pytest.raises(IngestionConfigurationError, match="crew_pseudonym"):
        correct_record(FLIGHTS, kept, {"crew_pseudonym": "a" * 32}, ENVIRON)


def test_a_sensitive_field_that_is_given_is_redacted_as_the_source_s_would_be() -> None:
    kept = kept_of(FLIGHT | {"crew_email": None}, "flights.flights")
    judged = correct(kept, {"crew_email": EMAIL}, "flights.flights")
    assert judged.record is not None
    expected = dict(FLIGHT)
    Redactor(FLIGHTS, ENVIRON["SLUICE_PSEUDONYM_KEY"].encode()).redact([expected])
    assert judged.record == expected
    assert EMAIL not in repr(judged)


def test_a_sensitive_field_that_is_given_wrongly_is_a_problem_without_its_value() -> None:
    kept = kept_of(FLIGHT | {"distance": 0}, "flights.flights")
    judged = correct(kept, {"crew_email": "a\0b", "distance": 1}, "flights.flights")
    assert judged.problem is not None
    assert judged.problem.rule == "crew_email.nul_character"
    assert "a\0b" not in repr(judged)


def test_a_sensitive_field_that_is_not_given_keeps_its_pseudonym() -> None:
    kept = kept_of(FLIGHT | {"distance": 0}, "flights.flights")
    judged = correct(kept, {"distance": 1400}, "flights.flights")
    assert judged.record is not None
    assert judged.record["crew_pseudonym"] == kept.payload["crew_pseudonym"]


@pytest.mark.parametrize(
    "sent", ["N1\x004228", "x" * 3000, {"tail": "N1"}, ["N1"], float("inf"), float("nan"), "\ud800"]
)
def test_what_was_not_kept_as_it_was_sent_is_never_loaded_for_it(sent: Any) -> None:
    kept = kept_of(FLIGHT | {"tailnum": sent, "distance": 0}, "flights.flights")
    assert kept.altered == ("tailnum",)
    # Even where what was kept of it would pass today.
    short = replace(kept, payload=kept.payload | {"tailnum": "N1", "distance": 1})
    problem = judge(short, "flights.flights").problem
    assert problem is not None
    assert (problem.rule, problem.error) == (kept.rule, kept.error)
    lacking = correct(kept, {"distance": 1}, "flights.flights")
    assert lacking.problem is not None
    assert lacking.problem.rule == "tailnum.not_kept"
    whole = correct(kept, {"distance": 1, "tailnum": "N14228"}, "flights.flights")
    assert whole.record is not None


def test_what_was_no_record_at_all_can_be_given_whole_only() -> None:
    kept = kept_of("a text")
    assert judge(kept).problem is not None
    assert correct(kept, {"temp": 1.0}).problem is not None
    assert correct(kept, HOUR).record == HOUR


def test_a_record_whose_key_is_taken_is_refused() -> None:
    kept = kept_of(HOUR | {"temp": 200})
    judging = kept_judge(WEATHER, Partition("flights.weather", "2013-02-12"))
    from ingestion.tables import TableBuilder

    builder = TableBuilder(WEATHER)
    builder.add([HOUR | {"time_hour": "2013-02-12T03:00:00-05:00"}], ["/1#0"])
    judging.remember(builder.finish())
    corrected = correct_record(WEATHER, kept, {"temp": 1.0}, ENVIRON)
    problem = judge_kept(judging, corrected.kept).problem
    assert problem is not None
    assert problem.rule == "duplicate_key"


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.integers(), max_size=2),
)


@given(st.dictionaries(st.sampled_from(sorted(FLIGHT)), values, max_size=4))
def test_no_correction_lets_a_sensitive_value_through(given: dict[str, Any]) -> None:
    kept = kept_of(FLIGHT | {"distance": 0}, "flights.flights")
    judged = correct(kept, given | {"crew_email": EMAIL}, "flights.flights")
    assert EMAIL not in repr(judged)
    assert "crew_email" not in (judged.kept.correction or {})

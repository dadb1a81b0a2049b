"""A correction by hand meets what the source sends later: every fate that it can have."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ingestion.checks import PartitionJudge
from ingestion.corrections import Amended, Fate, apply_corrections
from ingestion.partitions import SNAPSHOT, Partition
from ingestion.redaction import RedactedBefore
from ingestion.retries import KeptRecord
from ingestion.sources import get_resource
from ingestion.spool import Fetched, load_spooled, read_rejected, read_rows, write_spooled
from ingestion.tables import TableBuilder

AIRLINES = get_resource("flights.airlines")
DELTA, UNITED = {"carrier": "DL", "name": "Delta"}, {"carrier": "UA", "name": "United"}
NAMELESS = {"carrier": "AA", "name": ""}
CORRECTED = {"carrier": "AA", "name": "American"}


def fetch(spool: Path, records: list[Any]) -> Fetched:
    """The spooled partition of a source that sends these records."""
    partition = Partition("flights.airlines", SNAPSHOT, 3)
    judge = PartitionJudge(AIRLINES.contract, partition, RedactedBefore())
    page = judge.judge([dict(record) for record in records], "/v1/airlines?page=1")
    builder = TableBuilder(AIRLINES.contract)
    builder.add(page.accepted, [f"/v1/airlines?page=1#{at}" for at in page.positions])
    return write_spooled(
        spool,
        builder.finish(),
        page.rejected,
        {
            "resource": "flights.airlines",
            "partition": str(partition),
            "run_id": "r_1",
            "fetched": len(records),
            "schema_version": "1",
            "contract_version": "1",
            "unexpected_fields": (),
            "fetched_at": datetime(2013, 3, 1, tzinfo=UTC),
        },
    )


def correction(of: Any = NAMELESS, by: Any = CORRECTED) -> KeptRecord:
    return KeptRecord(
        record_id=7,
        source_ref="/v1/airlines?page=1#9",
        rule="name.string_too_short",
        field="name",
        error="",
        payload=of,
        correction=by,
        is_of_origin=False,
    )


def meet(spool: Path, records: list[Any], *corrections: KeptRecord) -> Amended:
    amended = apply_corrections(
        AIRLINES, fetch(spool, records), corrections or [correction()], spool
    )
    fetched = amended.fetched
    assert fetched.fetched == fetched.accepted + fetched.rejected == len(records)
    assert load_spooled(spool, fetched.ref, fetched.checksum) == fetched
    assert read_rows(spool, fetched.ref).num_rows == fetched.accepted
    assert len(read_rejected(spool, fetched.ref)) == fetched.rejected
    return amended


def rows(spool: Path, amended: Amended) -> dict[str, tuple[str, str]]:
    return {
        row["carrier"]: (row["name"], row["_source_ref"])
        for row in read_rows(spool, amended.fetched.ref).to_pylist()
    }


def test_as_long_as_the_source_sends_the_same_record_the_correction_takes_its_place(
    tmp_path: Path,
) -> None:
    amended = meet(tmp_path, [DELTA, NAMELESS, UNITED])
    assert [outcome.fate for outcome in amended.outcomes] == [Fate.APPLIED]
    assert amended.fetched.rejected == 0
    assert rows(tmp_path, amended) == {
        "DL": ("Delta", "/v1/airlines?page=1#0"),
        "UA": ("United", "/v1/airlines?page=1#2"),
        "AA": ("American", "/v1/airlines?page=1#1;manual=record-7"),
    }


@pytest.mark.parametrize(
    ("records", "fate", "rejected"),
    [
        ([DELTA, CORRECTED], Fate.CORRECTED, 0),
        ([DELTA, {"carrier": "AA", "name": "American Airlines"}], Fate.CORRECTED, 0),
        # the source has both: a record in order, and still the wrong one
        ([NAMELESS, {"carrier": "AA", "name": "American Airlines"}], Fate.CORRECTED, 1),
        ([DELTA, {"carrier": "AA", "name": 5}], Fate.CHANGED, 1),
        ([DELTA], Fate.WITHDRAWN, 0),
        ([DELTA, {"carrier": "UA", "name": ""}], Fate.WITHDRAWN, 1),
        ([], Fate.WITHDRAWN, 0),
    ],
)
def test_whatever_else_the_source_says_about_the_record_counts_more(
    tmp_path: Path, records: list[Any], fate: Fate, rejected: int
) -> None:
    amended = meet(tmp_path, records)
    assert [outcome.fate for outcome in amended.outcomes] == [fate]
    assert amended.fetched.rejected == rejected
    assert not any("manual" in ref for _, ref in rows(tmp_path, amended).values())


def test_a_correction_that_the_contract_does_not_allow_any_more_is_not_applied(
    tmp_path: Path,
) -> None:
    unfit = correction(by={"carrier": "AAA", "name": "American"})
    amended = meet(tmp_path, [DELTA, NAMELESS], unfit)
    assert [outcome.fate for outcome in amended.outcomes] == [Fate.UNFIT]
    assert amended.fetched.rejected == 1


def test_each_of_several_corrections_takes_the_place_of_its_own_record(tmp_path: Path) -> None:
    code = {"carrier": "BBB", "name": "Blue"}
    amended = meet(
        tmp_path,
        [NAMELESS, code, code],
        correction(),
        correction(of=code, by={"carrier": "B6", "name": "Blue"}),
        correction(of={"carrier": "XXX", "name": "X"}, by={"carrier": "X1", "name": "X"}),
    )
    assert [outcome.fate for outcome in amended.outcomes] == [
        Fate.APPLIED,
        Fate.APPLIED,
        Fate.WITHDRAWN,
    ]
    assert set(rows(tmp_path, amended)) == {"AA", "B6"}
    assert [item.payload for item in read_rejected(tmp_path, amended.fetched.ref)] == [code]


def test_what_was_no_record_at_all_cannot_be_recognised_again(tmp_path: Path) -> None:
    amended = meet(tmp_path, [DELTA], correction(of={"_record": "a list"}))
    assert [outcome.fate for outcome in amended.outcomes] == [Fate.WITHDRAWN]


def test_a_message_says_what_became_of_the_correction_and_no_value(tmp_path: Path) -> None:
    [outcome] = meet(tmp_path, [DELTA, NAMELESS]).outcomes
    assert "applied again" in outcome.message
    assert "American" not in outcome.message

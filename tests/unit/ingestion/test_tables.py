from datetime import date, datetime, timedelta, timezone
from typing import Annotated

import pyarrow as pa
from typing_extensions import TypedDict

from ingestion.contracts import Contract
from ingestion.fields import About
from ingestion.tables import TableBuilder, spool_schema, staging_schema


class Reading(TypedDict):
    number: Annotated[int, About(doc="Number.")]
    value: Annotated[float | None, About(doc="Value.")]
    text: Annotated[str | None, About(doc="Text.")]
    flag: Annotated[bool, About(doc="Flag.")]
    at: Annotated[datetime | None, About(doc="Moment.")]
    on: Annotated[date, About(doc="Day.")]


CONTRACT = Contract(
    name="lab.readings",
    version="1",
    supported_versions=("1",),
    record=Reading,
    key=("number",),
    renames={"on": "measured_on"},
)
ROW = {
    "number": 2**63 - 1,
    "value": 3,
    "text": "",
    "flag": False,
    "at": "2013-03-10T02:30:00.123456+05:30",
    "on": "2013-03-10",
}


def test_values_arrive_with_the_contracts_types() -> None:
    builder = TableBuilder(CONTRACT)
    nulls = ROW | {"value": None, "text": None, "at": None}
    builder.add([ROW, nulls], ["/1#0", "/1#1"])
    table = builder.finish()
    assert table.schema == spool_schema(CONTRACT)
    row = table.to_pylist()[0]
    zone = timezone(timedelta(hours=5, minutes=30))
    assert row["at"] == datetime(2013, 3, 10, 2, 30, 0, 123456, tzinfo=zone)
    assert (row["number"], row["value"], row["text"], row["flag"]) == (2**63 - 1, 3.0, "", False)
    assert (row["measured_on"], row["_source_ref"]) == (date(2013, 3, 10), "/1#0")
    assert table.to_pylist()[1]["at"] is None


def test_a_value_that_does_not_fit_its_column_comes_back_and_the_rest_stays() -> None:
    builder = TableBuilder(CONTRACT)
    wrong = [{"value": 2**60 + 1}, {"text": "\ud800"}, {"on": "2013-02-30"}]
    records = [ROW, *(ROW | change for change in wrong), ROW]
    builder.add(records, [f"/1#{at}" for at in range(5)])
    table = builder.finish()
    assert table.column("_source_ref").to_pylist() == ["/1#0", "/1#4"]
    found = [(unfit.field.name, unfit.source_ref) for unfit in builder.unstorable]
    assert found == [("value", "/1#1"), ("text", "/1#2"), ("on", "/1#3")]


def test_many_records_become_batches_and_lose_nothing() -> None:
    builder = TableBuilder(CONTRACT)
    for page in range(50):
        builder.add([ROW] * 500, [f"/{page}#{at}" for at in range(500)])
    table = builder.finish()
    assert table.num_rows == 25_000
    assert len(set(table.column("_source_ref").to_pylist())) == 25_000


def test_no_records_are_an_empty_table_with_all_columns() -> None:
    assert TableBuilder(CONTRACT).finish().schema == spool_schema(CONTRACT)
    assert staging_schema(CONTRACT).names[-4:] == [
        "_artifact_id",
        "_partition",
        "_run_id",
        "_source_ref",
    ]
    assert pa.string_view() not in staging_schema(CONTRACT).types

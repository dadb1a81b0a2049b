from datetime import date, datetime
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from ingestion.checks import PartitionJudge
from ingestion.columns import ColumnCheck
from ingestion.contracts import Contract, Day
from ingestion.fields import About, Drop, Pseudonym
from ingestion.partitions import Partition
from ingestion.redaction import Redactor
from ingestion.tables import TableBuilder


class Order(TypedDict):
    number: Annotated[int, About(doc="Number.", at_least=1)]
    count: Annotated[int | None, About(doc="Any number.")]
    placed_at: Annotated[datetime | None, About(doc="When it was placed.")]
    placed_on: Annotated[date, About(doc="The day of it.")]
    amount: Annotated[float | None, About(doc="Amount.", at_least=0, at_most=1e6)]
    rate: Annotated[float, About(doc="Any rate.")]
    state: Annotated[Literal["open", "closed"] | None, About(doc="State.")]
    code: Annotated[str, About(doc="Code.", length=(2, 3))]
    note: Annotated[str | None, About(doc="Note.")]
    express: Annotated[bool, About(doc="Whether it was urgent.")]
    email: Annotated[str | None, About(doc="Buyer.", sensitive=Pseudonym(into="buyer"))]
    phone: Annotated[str, About(doc="Phone.", sensitive=Drop())]


CONTRACT = Contract(
    name="shop.orders",
    version="1",
    supported_versions=("1",),
    record=Order,
    key=("number", "placed_on"),
    day=Day(("placed_on",)),
)
GOOD: dict[str, Any] = {
    "number": 1,
    "count": -(2**63),
    "placed_at": "2013-01-01T10:00:00.123456+05:30",
    "placed_on": "2013-01-01",
    "amount": 2,
    "rate": -1.5,
    "state": "open",
    "code": "ÄÖÜ",
    "note": "",
    "express": True,
    "buyer": "0f",
}
NULLS = GOOD | dict.fromkeys(["count", "placed_at", "amount", "state", "note", "buyer"])
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.0,
    1.5,
    1e7,
    2**53 + 1,
    2**63,
    10**30,
    -(2**64),
    float("inf"),
]
ODD += [float("nan"), "", "1", "ab", "a\0", "\ud800", "x" * 50, "open", "lost", [], {}, ["open"]]
ODD += ["2013-02-30", "2013-01-01\n", "2013-01-01", "2013-02-30T00:00:00Z", "2013-01-01T10:00:00"]
ODD += ["2013-01-01T10:00:00Z", "2013-01-01 10:00:00-00:30", "2013-01-01T10:00:00.1234567Z"]


def passes(*records: Any) -> bool:
    return ColumnCheck(CONTRACT).columns(records) is not None


def judged_alone(records: list[Any]) -> tuple[Any, int]:
    """The table and the number of rejected records when each is judged by itself."""
    day = Partition("shop.orders", "2013-01-01")
    judge = PartitionJudge(CONTRACT, day, Redactor(CONTRACT, b"k"))
    problems = [judge._judge_values(record) for record in records]
    builder = TableBuilder(CONTRACT)
    builder.add(records, [""] * len(records))
    return builder.finish(), len(builder.unstorable) + len([it for it in problems if it])


def test_good_records_pass_at_once_whatever_is_null() -> None:
    assert passes(GOOD)
    assert passes(NULLS)
    assert passes(GOOD, NULLS, GOOD | {"rate": 3})
    assert passes()


@pytest.mark.parametrize("field", list(GOOD))
def test_a_value_passes_at_once_only_if_it_would_alone(field: str) -> None:
    for value in ODD:
        record = GOOD | {field: value}
        _, rejected = judged_alone([record])
        if rejected:
            assert not passes(record), value
            assert not passes(GOOD, record), value
            assert not passes(record, NULLS), value
        elif not (type(value) is int and abs(value) > 2**53):
            assert passes(record), value
            assert passes(GOOD, record, NULLS), value


@pytest.mark.parametrize("record", [None, [], "x", {}, GOOD | {"surprise": 1}])
def test_what_is_not_just_the_contracts_fields_is_left_to_be_judged_alone(record: Any) -> None:
    assert not passes(GOOD, record)
    without = {name: value for name, value in GOOD.items() if name != "note"}
    assert not passes(without)
    assert not passes(without | {"surprise": None})
    assert not passes(GOOD | {"surprise": 1}, without)


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ODD)
changes = st.dictionaries(st.sampled_from(list(GOOD)), values, max_size=2)


@given(st.lists(changes.map(lambda changed: GOOD | changed), min_size=1, max_size=4))
def test_what_passes_at_once_would_pass_alone_and_is_the_same_table(records: list[Any]) -> None:
    table, rejected = judged_alone(records)
    columns = ColumnCheck(CONTRACT).columns(records)
    if columns is not None:
        assert rejected == 0
        builder = TableBuilder(CONTRACT)
        builder.add_columns(columns, [""] * len(records))
        assert repr(builder.finish().to_pylist()) == repr(table.to_pylist())

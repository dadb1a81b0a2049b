import json
from datetime import date, datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import ValidationError
from typing_extensions import TypedDict

from ingestion.contracts import BOOKKEEPING, Contract, Day
from ingestion.fields import About, Drop, Pseudonym, read_field
from ingestion.sources import get_resource, list_sources


class Order(TypedDict):
    number: Annotated[int, About(doc="Number.", at_least=1)]
    placed_at: Annotated[datetime, About(doc="When it was placed.")]
    placed_on: Annotated[date, About(doc="The day of it.")]
    amount: Annotated[float | None, About(doc="Amount.", unit="EUR", at_least=0, at_most=1e6)]
    state: Annotated[Literal["open", "closed"], About(doc="State.")]
    express: Annotated[bool, About(doc="Whether it was urgent.")]
    email: Annotated[str | None, About(doc="Buyer.", sensitive=Pseudonym(into="buyer"))]
    phone: Annotated[str, About(doc="Phone.", sensitive=Drop())]


def contract_of(record: type = Order, **changes: Any) -> Contract:
    given = {
        "name": "shop.orders",
        "version": "1",
        "supported_versions": ("1",),
        "record": record,
        "key": ("number",),
        "day": Day(("placed_on",)),
        "renames": {"number": "order_number"},
    } | changes
    return Contract(**given)


GOOD = {
    "number": 1,
    "placed_at": "2013-01-01T10:00:00Z",
    "placed_on": "2013-01-01",
    "amount": 2,
    "state": "open",
    "express": True,
    "buyer": "0f",
}


def test_columns_follow_redaction_and_renaming() -> None:
    contract = contract_of(key=("order_number",))
    assert contract.columns == (
        "order_number",
        "placed_at",
        "placed_on",
        "amount",
        "state",
        "express",
        "buyer",
    )
    assert [str(step) for step in contract.steps] == [
        "pseudonym email into buyer",
        "drop phone",
        "rename number into order_number",
    ]
    assert list(contract.sql_types())[-4:] == list(BOOKKEEPING)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({}, "key and day name no column"),
        ({"key": ("phone",), "renames": {}}, "key and day name no column"),
        ({"renames": {"nothing": "x"}, "key": ("number",)}, "renames name no field"),
        ({"renames": {"number": "state"}, "key": ("state",)}, "under one name"),
        ({"renames": {"number": "_n"}, "key": ("_n",)}, "underscore"),
        ({"key": (), "renames": {}}, "give a key"),
        ({"supported_versions": (), "renames": {}}, "at least one supported version"),
    ],
)
def test_a_contract_that_cannot_be_kept_is_refused(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        contract_of(**changes)


@pytest.mark.parametrize(
    ("annotation", "complaint"),
    [
        (int, "declare it as Annotated"),
        (Annotated[int, "doc"], "declare it as Annotated"),
        (Annotated[list[int], About(doc="x")], "a field is one of"),
        (Annotated[int | str, About(doc="x")], "a field is one of"),
        (Annotated[Literal[1, 2], About(doc="x")], "texts only"),
        (Annotated[int, About(doc=" ")], "what it means"),
        (Annotated[str, About(doc="x", at_least=1)], "only a number"),
        (Annotated[int, About(doc="x", length=(1, 2))], "only a free text"),
        (Annotated[int, About(doc="x", sensitive=Pseudonym("y"))], "drop it instead"),
    ],
)
def test_a_field_that_cannot_be_kept_is_refused(annotation: Any, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        read_field("f", annotation)


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("number", 0, "greater_than_equal"),
        ("number", 2**63, "less_than_equal"),
        ("number", True, "int_type"),
        ("number", 1.0, "int_type"),
        ("number", "1", "int_type"),
        ("number", None, "int_type"),
        ("placed_at", 1357034400, "string_type"),
        ("placed_at", "1357034400", "string_pattern_mismatch"),
        ("placed_at", "2013-01-01T10:00:00", "string_pattern_mismatch"),
        ("placed_at", "2013-13-01T10:00:00Z", "string_pattern_mismatch"),
        ("placed_on", "2013-00-30", "string_pattern_mismatch"),
        ("placed_on", "2013-01-01T00:00:00", "string_pattern_mismatch"),
        ("amount", "2", "float_type"),
        ("amount", -0.5, "greater_than_equal"),
        ("amount", float("inf"), "finite_number"),
        ("state", "lost", "literal_error"),
        ("state", 1, "literal_error"),
        ("express", 1, "bool_type"),
    ],
)
def test_a_wrong_value_breaks_a_stable_rule(field: str, value: Any, rule: str) -> None:
    validator = contract_of(key=("order_number",)).record_validator
    validator.validate_python(GOOD)
    with pytest.raises(ValidationError) as caught:
        validator.validate_python(GOOD | {field: value})
    (problem,) = caught.value.errors()
    assert (problem["loc"][0], problem["type"]) == (field, rule)


def test_every_source_describes_itself_as_json() -> None:
    described = json.loads(json.dumps([source.describe() for source in list_sources()]))
    (flights,) = [source for source in described if source["source"] == "flights"]
    assert [entry["resource"] for entry in flights["resources"]] == [
        "flights.flights",
        "flights.weather",
        "flights.planes",
        "flights.airlines",
        "flights.airports",
    ]
    contract = flights["resources"][0]["contract"]
    assert contract["sensitive"] == ["crew_email"]
    assert contract["window"] == "day"
    (email,) = [field for field in contract["fields"] if field["name"] == "crew_email"]
    assert (email["stored"], email["stored_as"]) == ("pseudonym", "crew_pseudonym")
    assert all(
        field["doc"]
        for resource in flights["resources"]
        for field in resource["contract"]["fields"]
    )


def test_the_stored_columns_of_flights_hold_no_sensitive_field() -> None:
    contract = get_resource("flights.flights").contract
    assert "crew_email" not in contract.columns
    assert contract.sql_types()["crew_pseudonym"] == "character varying"
    assert contract.sql_types()["time_hour"] == "timestamp with time zone"

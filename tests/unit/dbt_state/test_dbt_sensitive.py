"""What comes from a sensitive field is found through the SQL; what cannot be followed counts as such."""

from types import SimpleNamespace
from typing import Any

import pytest

from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph
from orchestration.warehouse.dbt.sensitive import SourceColumns, sensitive_columns
from orchestration.warehouse.states import stored_sources

SOURCE = '"sluice"."source"."shop__orders"'
SOURCES = {
    "shop.orders": SourceColumns(("order_id", "cents", "buyer", "_partition"), frozenset({"buyer"}))
}


def model(name: str, code: str, *parents: str, contract: tuple[str, ...] = ()) -> ModelNode:
    return ModelNode(
        name=name,
        unique_id=f"model.shop.{name}",
        path=f"models/{name}.sql",
        kind="table",
        materialized="versioned",
        parents=parents,
        resources=() if parents else ("shop.orders",),
        compiled_code=code,
        contract=tuple([column, "text", False, []] for column in contract),
    )


def trace(
    *models: ModelNode, meta: dict[str, dict[str, Any]] | None = None
) -> dict[str, frozenset[str]]:
    nodes = {
        each.unique_id: SimpleNamespace(
            columns={
                name: SimpleNamespace(meta={}, config=SimpleNamespace(meta={"sensitive": value}))
                for name, value in (meta or {}).get(each.name, {}).items()
            }
        )
        for each in models
    }
    return sensitive_columns(ProjectGraph(models, {}, SimpleNamespace(nodes=nodes)), SOURCES)


@pytest.mark.parametrize(
    ("code", "sensitive"),
    [
        (f"select order_id, cents from {SOURCE}", set()),
        (f"select order_id, buyer from {SOURCE}", {"buyer"}),
        (f"select order_id, buyer as b2, upper(buyer) || 'x' as b3 from {SOURCE}", {"b2", "b3"}),
        (f"select * from {SOURCE}", {"buyer"}),
        (
            f"with s as (select * from {SOURCE}), f as (select s.* from s) select * from f",
            {"buyer"},
        ),
        (f"select cents, max(buyer) as top from {SOURCE} group by 1", {"top"}),
        (f"select case when buyer is null then 1 end as known from {SOURCE}", {"known"}),
        (f"select order_id from {SOURCE} where buyer = 'x'", set()),
        (
            f"select order_id as a from {SOURCE} union all select buyer as a from {SOURCE}",
            {"a"},
        ),
        (f"select row_number() over (order by buyer) as n, order_id from {SOURCE}", {"n"}),
        (f"select (select max(buyer) from {SOURCE}) as top, 1 as one", {"top"}),
        (f"select count(*) as n from {SOURCE}", set()),
    ],
)
def test_a_column_made_from_a_sensitive_one_is_found(code: str, sensitive: set[str]) -> None:
    assert trace(model("m", code))["m"] == sensitive


@pytest.mark.parametrize(
    "code",
    [
        f"select to_jsonb(s) as everything from {SOURCE} as s",
        f"select x.v from {SOURCE} as s cross join lateral (select s.buyer as v) as x",
        f"select v from {SOURCE} as s, unnest(array[s.buyer]) as v",
        f"select row_to_json(s.*) as everything from {SOURCE} as s",
        f"select (s).buyer as v from {SOURCE} as s",
        f"select s.v from {SOURCE} as s(a, b, v, d)",
        f"select nonsense from {SOURCE}",
        "this is not SQL (",
    ],
)
def test_where_it_cannot_be_followed_every_column_counts(code: str) -> None:
    found = trace(model("m", code))["m"]
    assert found == {"*"} or found >= {"v"}
    declared = trace(model("m", code, contract=("v", "everything")))["m"]
    assert declared in ({"v", "everything"}, {"v"})


def test_it_is_followed_from_model_to_model_under_any_name() -> None:
    found = trace(
        model("stg", f"select order_id, buyer as who from {SOURCE}"),
        model("fct", 'select who as name, order_id from "sluice"."model"."stg"', "stg"),
        model("agg", 'select count(*) as n from "sluice"."model"."fct"', "fct"),
    )
    assert found == {"stg": {"who"}, "fct": {"name"}, "agg": frozenset()}


def test_the_project_has_the_last_word_on_a_column() -> None:
    code = f"select buyer, count(distinct buyer) as buyers, cents from {SOURCE} group by 1, 3"
    assert trace(model("m", code))["m"] == {"buyer", "buyers"}
    said = {"m": {"buyers": False, "cents": True}}
    assert trace(model("m", code), meta=said)["m"] == {"buyer", "cents"}


def test_saying_no_for_one_column_opens_no_other_one() -> None:
    code = f"select row_to_json(s.*) as everything, 1 as one from {SOURCE} as s"
    whole = model("m", code, contract=("everything", "one"))
    assert trace(whole, meta={"m": {"one": False}})["m"] == {"everything"}


def test_the_contracts_of_this_project_name_the_pseudonym_and_not_the_person() -> None:
    flights = stored_sources()["flights.flights"]
    assert flights.sensitive == {"crew_pseudonym"}
    assert set(flights.sensitive) <= set(flights.columns)

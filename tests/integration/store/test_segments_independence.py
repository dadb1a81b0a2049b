"""Models that look at other partitions are refused, and honest ones are not; no dbt is needed for it."""

from dataclasses import replace
from typing import Any

import pytest
from market import ORDERS, Market, day, orders

from orchestration.errors import ConfigurationError, LeaseLost
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.segments.contents import read_content
from orchestration.warehouse.segments.independence import check_independence

SOURCE = '"sluice"."source"."shop__orders"'
VIEW = '"sluice"."model"."seen"'


def node(name: str, code: str, *parents: str, **changes: Any) -> ModelNode:
    defaults: dict[str, Any] = {
        "kind": "table",
        "materialized": "versioned",
        "resources": () if parents else (ORDERS,),
        "partition_by": "_partition",
        "contract": (["x", "numeric", False, []], ["_partition", "text", False, []]),
    }
    settings = defaults | {"parents": parents, "compiled_code": code} | changes
    return ModelNode(name, f"model.shop.{name}", f"models/{name}.sql", **settings)


def view(code: str) -> ModelNode:
    return node(
        "seen", code, kind="view", materialized="view", partition_by=None, contract=(), resources=(ORDERS,)
    )  # fmt: skip


def check(market: Market, *models: ModelNode) -> Writer:
    """Builds the models, which ends with the check."""
    writer = market.prepare(graph=ProjectGraph(models))
    market.make_by_hand(writer, market.lease())
    return writer


def checked(market: Market) -> list[tuple[Any, ...]]:
    with market.warehouse.connect() as owner:
        return owner.execute("select model, partitions from ops.partition_checks").fetchall()


@pytest.fixture
def month(market: Market) -> Market:
    market.take(range(1, 41))
    return market


DEPENDENT = {
    "running total": "sum(cents) over (order by placed_on)",
    "count of all": "count(*) over ()",
    "rank over all": "rank() over (order by cents)",
    "row number": "row_number() over (order by order_id)",
    "share of all": "cast(cents as double precision) / sum(cents) over ()",
    "the day before": "lag(cents, 3) over (order by order_id)",
    "the day after": "lead(cents, 3) over (order by order_id)",
    "the first of all": "first_value(order_id) over (order by order_id)",
    "whether it is the last": "cast(placed_on = max(placed_on) over () as integer)",
    "four weeks before": "sum(cents) over (order by placed_on range between interval '28 days' preceding "
    "and interval '28 days' preceding)",
}


@pytest.mark.parametrize("expression", DEPENDENT.values(), ids=DEPENDENT)
def test_a_model_that_reads_other_partitions_is_refused(month: Market, expression: str) -> None:
    model = node("m", f"select {expression} as x, _partition from {SOURCE}")
    with pytest.raises(ConfigurationError, match=r"m \(models/m.sql\): partition 2024-") as raised:
        check(month, model)
    assert raised.value.code == "partitions_depend"
    assert "lookback: N" in raised.value.message
    assert checked(month) == []


def test_other_ways_of_reading_other_partitions_are_refused_too(month: Market) -> None:
    for code in (
        f"select order_id as x, _partition from {SOURCE} order by cents desc, order_id limit 5",
        (
            f"select distinct on (customer) order_id as x, _partition from {SOURCE} "
            "order by customer, order_id"
        ),
        (
            f"select a.order_id as x, a._partition from {SOURCE} a join {SOURCE} b "
            "on b.placed_on = a.placed_on - 1 and b.customer = a.customer"
        ),
        (
            f"select a.order_id as x, a._partition from {SOURCE} a "
            f"where a.cents > (select avg(cents) from {SOURCE} where placed_on < a.placed_on)"
        ),
    ):
        with pytest.raises(ConfigurationError, match="comes out differently"):
            check(month, node("m", code))


def test_a_lookback_that_is_too_short_is_refused_and_one_that_is_long_enough_is_not(
    month: Market,
) -> None:
    code = (
        "select sum(sum(cents)) over (order by placed_on rows 6 preceding) as x, _partition "
        f"from {SOURCE} group by placed_on, _partition"
    )
    with pytest.raises(ConfigurationError, match="comes out differently"):
        check(month, node("m", code, lookback=5))
    check(month, node("m", code, lookback=6))
    check(month, node("m", code, lookback=30))


def test_a_view_that_looks_at_everything_is_seen_through(month: Market) -> None:
    reader = node("m", f"select x, _partition from {VIEW}", "seen")
    honest = view(f"select cents as x, _partition from {SOURCE}")
    check(month, honest, reader)
    # The reader's own text is what it was.
    with pytest.raises(ConfigurationError, match=r"m \(models/m.sql\)"):
        check(month, view(f"select count(*) over () as x, _partition from {SOURCE}"), reader)


HONEST = {
    "an aggregate": "select sum(cents) as x, _partition from {0} group by _partition",
    "a window of the day": "select rank() over (partition by _partition order by cents) as x, _partition "
    "from {0}",
    "a float": "select avg(cents * 0.1::float8) as x, _partition from {0} group by _partition",
    "floats around zero": "select cents::float8 - avg(cents::float8) over (partition by _partition) "
    "as x, _partition from {0}",
    "no numbers": "select case when cents > 600 then 'NaN'::float8 when cents < 500 then null "
    "else '-Infinity' end as x, _partition from {0}",
    "very large ones": "select 1e308::float8 as x, _partition from {0}",
    "small floats": "select sum(cents::real / 3) as x, _partition from {0} group by _partition",
    "numeric scales": "select cents / 3.0 as x, _partition from {0}",
    "json": "select jsonb_build_object('b', cents, 'a', order_id) as x, _partition from {0}",
    "an array": "select array_agg(order_id order by order_id) as x, _partition from {0} "
    "group by _partition",
    "nothing at all": "select 1 as x, _partition from {0} where false",
    "every column": "select * from (select cents as x, _partition from {0}) as s -- all",
    "an instant": "select placed_on::timestamptz as x, _partition from {0}",
}


@pytest.mark.parametrize("code", HONEST.values(), ids=HONEST)
def test_an_honest_model_is_not_refused(month: Market, code: str) -> None:
    check(month, node("m", code.format(SOURCE)))


def test_what_was_checked_is_checked_once_and_only_if_something_was_seen(market: Market) -> None:
    model = node("m", f"select order_id as x, _partition from {SOURCE}")
    market.take([1])
    check(market, model)
    assert checked(market) == []  # One partition alone shows nothing.
    market.put([], day(1))
    market.put([], day(2))
    check(market, model)
    assert checked(market) == []  # Neither do empty ones.
    market.take(range(1, 10))
    check(market, model)
    assert checked(market) == [("m", [day(1), day(5), day(9)])]
    market.take([10])
    check(market, model)
    assert len(checked(market)) == 1


def test_a_late_worker_writes_no_check_down(market: Market) -> None:
    market.take([1])
    writer = check(market, node("m", f"select order_id as x, _partition from {SOURCE}"))
    market.take([2])
    later = replace(market.prepare(graph=writer.graph), plan=writer.plan)
    lease = market.lease()
    with market.connect() as connection:
        with pytest.raises(LeaseLost):
            check_independence(connection, later, Lease(lease.name, lease.fence + 1))
        assert checked(market) == []
        check_independence(connection, later, lease)
    assert len(checked(market)) == 1


def test_the_order_of_rows_changes_floats_by_too_little_to_matter(market: Market) -> None:
    market.put([(n, day(1), "ann", n * 7919 % 1009) for n in range(2000)], day(1))
    text = (
        "select sum(x) as x, '1' as _partition from "
        "(select exp(cents / 100.0::float8) - 90 as x from {0} order by {1}) as s"
    )
    with market.connect(manifest=market.manifest()) as connection:
        sums = {
            connection.execute(text.format("live.shop__orders", order).encode()).fetchone()
            for order in ("order_id", "cents", "-cents")
        }
        contents = [
            read_content(
                connection, text.format("live.shop__orders", order), ["x", "_partition"], "1"
            )
            for order in ("order_id", "cents", "-cents")
        ]
        other = read_content(
            connection,
            text.format("live.shop__orders", "1").replace("sum(x)", "sum(x) * 1.00000001"),
            ["x", "_partition"],
            "1",
        )
    assert len(sums) > 1
    assert contents[0].matches(contents[1])
    assert contents[0].matches(contents[2])
    assert not contents[0].matches(other)


def test_numbers_that_change_places_are_seen(market: Market) -> None:
    texts = [
        f"select n, x::float8, '1' as _partition from (values {values}) as v (n, x)"
        for values in ("(1, 1), (2, 2)", "(1, 2), (2, 1)", "(2, 2), (1, 1)")
    ]
    with market.connect() as connection:
        one, swapped, same = (
            read_content(connection, text, ["n", "x", "_partition"], "1") for text in texts
        )
    assert one.matches(same)
    assert not one.matches(swapped)


def test_orders_of_the_fixture_are_what_the_tests_above_expect() -> None:
    assert {row[3] for number in (1, 40) for row in orders(number)} == {500, 1000, 1500}

"""Segments become part of the store whole and once, whoever builds them at the same time."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from market import ORDERS, Built, Market, day, orders

from orchestration.errors import TransformFailure
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph
from orchestration.warehouse.segments import layout

SOURCE = '"sluice"."source"."shop__orders"'
CONTRACT = (
    ["order_id", "bigint", False, []],
    ["placed_on", "date", False, []],
    ["_partition", "text", False, []],
)


def node(name: str, code: str, *parents: str, **changes: Any) -> ModelNode:
    defaults: dict[str, Any] = {
        "kind": "table",
        "materialized": "versioned",
        "resources": () if parents else (ORDERS,),
        "partition_by": "_partition",
        "contract": CONTRACT,
    }
    settings = defaults | {"parents": parents, "compiled_code": code} | changes
    return ModelNode(name, f"model.shop.{name}", f"models/{name}.sql", **settings)


COLUMNS = "order_id, placed_on, cast(_partition as text) as _partition"
FCT = node("fct", f"select {COLUMNS} from {SOURCE}")
BELOW = node("below", f'select {COLUMNS} from "sluice"."model"."fct"', "fct")
GRAPH = ProjectGraph((FCT, BELOW))


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("cast(null as text)", "null"),
        ("cast(placed_on + 1 as text)", "'2024-01-05'"),
        ("'snapshot'", "'snapshot'"),
        ("_partition || '@1'", "'2024-01-01@1'"),
    ],
)
@pytest.mark.parametrize("lookback", [0, 2])
def test_rows_of_a_partition_that_was_not_to_be_built_are_refused(
    market: Market, expression: str, told: str, lookback: int
) -> None:
    """Also when rows that are only looked back at are left out."""
    market.take(range(1, 5))
    code = f"select order_id, placed_on, {expression} as _partition from {SOURCE}"
    writer = market.prepare(graph=ProjectGraph((node("m", code, lookback=lookback),)))
    lease = market.lease()
    with pytest.raises(TransformFailure, match=r"^m: has rows with _partition") as early:
        market.make_by_hand(writer, lease)
    with pytest.raises(TransformFailure, match=r"^m: has rows with _partition") as raised:
        market.adopt(writer, lease)
    assert early.value.message == raised.value.message
    assert raised.value.code == "foreign_partition"
    assert told in raised.value.message
    with market.warehouse.connect() as owner:
        states = owner.execute("select distinct state from ops.relations").fetchall()
    assert states == [("loading",)]


def test_of_two_builders_the_second_uses_what_the_first_adopted(market: Market) -> None:
    market.take(range(1, 5))
    first, second = market.prepare(graph=GRAPH), market.prepare(graph=GRAPH)
    one, two = market.lease("build/one"), market.lease("build/two")
    market.make_by_hand(first, one)
    market.make_by_hand(second, two)
    won = market.adopt(first, one)
    assert (won.replaced, won.orphaned) == ({}, ())
    lost = market.adopt(second, two)
    assert set(lost.replaced) == {"fct", "below"}
    # Its views stand on segments that nobody needs: they are not adopted, and a new plan needs none.
    assert set(lost.orphaned) == {"fct", "below"}
    again = market.prepare(graph=GRAPH)
    assert again.plan.build == ()
    assert again.plan.relations == {name: won.adopted[name] for name in ("fct", "below")}
    with market.warehouse.connect() as owner:
        counts = owner.execute(
            "select state, kind, count(*) from ops.relations group by 1, 2 order by 1, 2"
        ).fetchall()
    assert counts == [
        ("abandoned", "table", 2),
        ("abandoned", "view", 2),
        ("adopted", "table", 2),
        ("adopted", "view", 2),
    ]


def test_builders_at_the_same_moment_all_come_to_the_same_version(market: Market) -> None:
    market.take(range(1, 9))

    def build(number: int) -> Built:
        lease = market.lease(f"build/{number}")
        for _ in range(3):
            writer = market.prepare(graph=GRAPH)
            market.make_by_hand(writer, lease)
            adoption = market.adopt(writer, lease)
            if not adoption.orphaned:
                relations = {**writer.plan.relations, **adoption.adopted}
                return Built(GRAPH, writer.keys, writer.plan, relations, market.manifest())
        raise AssertionError("it never ended")

    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(build, range(4)))
    assert len({tuple(sorted(each.relations.items())) for each in built}) == 1
    assert len(market.stored(built[0], "fct")) == 24


def test_a_merge_and_a_build_of_one_night_are_adopted_together(
    market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "MOST_SEGMENTS", 2)
    market.take([1])
    market.build(graph=GRAPH, by_hand=True)
    market.take([2])
    market.build(graph=GRAPH, by_hand=True)
    market.put(orders(1, 2), day(1))
    market.take([3])
    night = market.build(graph=GRAPH, by_hand=True)
    assert {planned.model for planned in night.plan.merges} == set()
    market.take([4])
    night = market.build(graph=GRAPH, by_hand=True)
    assert {planned.model for planned in night.plan.merges} == {"fct", "below"}
    for model in ("fct", "below"):
        shown = market.visible(night, model)
        assert {name: held.row_count for name, held in shown.items()} == {
            day(1): 2, day(2): 3, day(3): 3, day(4): 3,
        }  # fmt: skip
        assert len({held.segment for held in shown.values()}) == 2
        assert len(market.stored(night, model)) == 11


def test_the_planner_skips_segments_of_other_days(market: Market) -> None:
    for number in (1, 2, 3):
        market.take([number])
        built = market.build(graph=GRAPH, by_hand=True)
    relation = built.relations["fct"]
    segments = {held.segment for held in market.visible(built, "fct").values()}
    for condition in (f"placed_on = '{day(2)}'", f"_partition = '{day(2)}'"):
        with market.warehouse.connect() as owner:
            lines = owner.execute(
                f"explain (costs off) select * from store.{relation} where {condition}".encode()
            ).fetchall()
        plan = "\n".join(line for (line,) in lines)
        assert sum(segment in plan for segment in segments) == 1


@pytest.mark.parametrize("style", ["German, DMY", "SQL, MDY", "Postgres, DMY"])
def test_the_databases_own_date_style_and_time_zone_change_nothing(
    market: Market, style: str
) -> None:
    with market.warehouse.connect(autocommit=True) as owner:
        name = market.warehouse.database
        owner.execute(f"alter database {name} set datestyle = '{style}'".encode())
        owner.execute(f"alter database {name} set timezone = 'Asia/Tokyo'".encode())
    text = (
        "select order_id, placed_on, cast(placed_on as timestamptz) + interval '23 hours' as at, "
        f"cast(_partition as text) as _partition from {SOURCE}"
    )
    contract = (*CONTRACT[:2], ["at", "timestamptz", False, []], CONTRACT[2])
    graph = ProjectGraph((node("m", text, contract=contract),))
    market.put([(1, "0044-03-15 BC", "ann", 1), (2, "infinity", "bob", 1)], day(1))
    market.put([(3, None, "eve", 1)], day(2))
    built = market.build(graph=graph, by_hand=True)
    market.take([3])
    built = market.build(graph=graph, by_hand=True)
    with market.warehouse.connect() as owner:
        rows = owner.execute(
            f"select order_id, to_char(at at time zone 'UTC', 'YYYY-MM-DD HH24') from "
            f"store.{built.relations['m']} where order_id in (300, 301)".encode()
        ).fetchall()
        checks = owner.execute(
            "select count(*) from pg_constraint where starts_with(conname, 'sluice_bounds_')"
        ).fetchone()
    assert rows == [(300, "2024-01-03 23"), (301, "2024-01-03 23")]
    assert checks == (6,)

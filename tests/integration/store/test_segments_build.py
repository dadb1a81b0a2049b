"""What a night, a correction and a refresh build of partitioned models, with dbt and Postgres."""

import psycopg
import pytest
from market import Market, day, orders

from orchestration.warehouse.connections import Role

PARTITIONED = {"fct_orders", "agg_daily", "mean_week"}


def days(*numbers: int) -> tuple[str, ...]:
    return tuple(day(number) for number in numbers)


def test_a_new_day_builds_that_day_of_every_partitioned_model(market: Market) -> None:
    market.take(range(1, 11))
    first = market.build()
    assert first.partitions == dict.fromkeys(PARTITIONED, days(*range(1, 11)))
    market.take([11])
    night = market.build()
    assert night.partitions == dict.fromkeys(PARTITIONED, days(11))
    assert night.by_dbt == PARTITIONED | {"big_orders", "sum_customers"}
    for model in PARTITIONED:
        shown = market.visible(night, model)
        assert sorted(shown) == list(days(*range(1, 12)))
        assert len({held.segment for held in shown.values()}) == 2
    assert len(market.stored(night, "fct_orders")) == 33
    assert len(market.stored(first, "fct_orders")) == 30


def test_a_correction_builds_its_day_and_hides_the_old_rows(market: Market) -> None:
    market.take(range(1, 10))
    first = market.build()
    market.put(orders(2, 1, cents=700), day(2))
    second = market.build()
    assert second.partitions == {
        "fct_orders": days(2),
        "agg_daily": days(2),
        # The corrected day, and the six that look back at it.
        "mean_week": days(*range(2, 9)),
    }
    rows = market.stored(second, "fct_orders")
    assert [row[:4] for row in rows if row[4] == day(2)] == [(200, rows[3][1], "ann", 7)]
    assert len(rows) == 25
    assert len(market.stored(first, "fct_orders")) == 27
    with market.warehouse.connect() as owner:
        hidden = owner.execute(
            "select hidden from ops.view_segments where view_name = %s and hidden <> '{}'",
            [second.relations["fct_orders"]],
        ).fetchall()
        live = owner.execute(
            f"select _partition, count(*) from store.{second.relations['fct_orders']}__live "
            "where not _live group by 1".encode()
        ).fetchall()
    assert hidden == [([day(2)],)]
    assert live == [(day(2), 3)]


def test_a_refresh_with_equal_content_builds_nothing(market: Market) -> None:
    market.take(range(1, 5))
    first = market.build()
    again = market.put(list(reversed(orders(3))), day(3))
    assert again.revision == 2
    second = market.build()
    assert second.plan.build == ()
    assert second.relations == first.relations


def test_a_day_that_is_left_out_disappears_and_comes_back_without_a_build(market: Market) -> None:
    market.take(range(1, 5))
    first = market.build("fct_orders", "agg_daily")
    held = market.leave_out(4)
    second = market.build("fct_orders", "agg_daily")
    assert second.by_dbt == {"big_orders"}
    assert [row[4] for row in market.stored(second, "fct_orders")] == [
        name for name in days(1, 2, 3) for _ in range(3)
    ]
    assert sorted(market.visible(second, "agg_daily")) == list(days(1, 2, 3))
    market.accepted[held.resource, held.window_name] = held
    third = market.build("fct_orders", "agg_daily")
    assert third.plan.build == ()
    assert third.relations == first.relations


def test_an_empty_day_is_built_once_and_remembered(market: Market) -> None:
    market.take([1, 2])
    market.put([], day(3))
    market.put(orders(4, 1, cents=50), day(4))  # No big order, so no row in the aggregate.
    first = market.build()
    assert first.partitions["fct_orders"] == days(1, 2, 3, 4)
    assert {
        name: held.row_count for name, held in market.visible(first, "agg_daily").items()
    } == dict(zip(days(1, 2, 3, 4), (3, 3, 0, 0), strict=True))
    market.take([5])
    assert market.build().partitions == dict.fromkeys(PARTITIONED, days(5))


def test_without_any_day_there_is_an_empty_model_that_others_may_read(market: Market) -> None:
    empty = market.build()
    for model in PARTITIONED:
        assert market.stored(empty, model) == []
    assert market.build().plan.build == ()
    market.take([1])
    assert market.build().partitions == dict.fromkeys(PARTITIONED, days(1))
    market.leave_out(1)
    again = market.build()
    assert again.relations == empty.relations
    # The parents' views are there already, and stand on nothing that has a row.
    market.edit("models/marts/agg_daily.sql", "count(*)", "count(*) + 1")
    assert market.stored(market.build(), "agg_daily") == []


def test_a_changed_dimension_builds_every_day_of_what_joins_it(market: Market) -> None:
    market.take(range(1, 4))
    market.build()
    market.put([("ann", "Oslo"), ("bob", "Rome"), ("eve", "Rome")])
    second = market.build()
    assert second.partitions == {"agg_daily": days(1, 2, 3)}
    assert second.by_dbt == {"dim_customer", "agg_daily"}
    market.edit("seeds/regions.csv", "Rome,south", "Rome,middle")
    third = market.build()
    assert third.partitions == {"agg_daily": days(1, 2, 3)}
    assert {row[1] for row in market.stored(third, "agg_daily")} == {"north", "middle"}


def test_an_edit_builds_every_day_of_the_model_and_of_what_reads_it(market: Market) -> None:
    market.take(range(1, 4))
    first = market.build()
    market.edit("models/marts/big_orders.sql", "euros >= 1", "euros >= 6")
    second = market.build()
    assert second.partitions == {"agg_daily": days(1, 2, 3)}
    market.edit("models/marts/big_orders.sql", "euros >= 6", "euros >= 1")
    third = market.build()
    assert third.plan.build == ()
    assert third.relations == first.relations


def test_a_window_is_read_as_far_back_as_the_model_says(market: Market) -> None:
    market.take(range(1, 15))
    whole = market.build("mean_week")
    with market.warehouse.connect() as owner:
        expected = owner.execute(
            f"select placed_on, sum(sum(euros)) over (order by placed_on rows 6 preceding) / 7 "
            f"from store.{whole.relations['fct_orders']} group by 1 order by 1".encode()
        ).fetchall()
    assert [row[:2] for row in market.stored(whole, "mean_week")] == expected
    market.take([15])
    night = market.build("mean_week")
    assert night.partitions["mean_week"] == days(15)
    assert market.stored(night, "mean_week")[-1][1] == expected[-1][1]


def test_a_build_reads_the_rows_of_its_days_alone(market: Market) -> None:
    market.take(range(1, 40))
    first = market.build("fct_orders", "agg_daily")
    market.take([40])
    writer = market.prepare("fct_orders", "agg_daily")
    texts = {
        planned.model: writer.build(planned)
        for planned in writer.plan.by_dbt
        if planned.partitions is not None
    }
    with market.connect() as connection, connection.transaction(force_rollback=True):
        for view in texts["fct_orders"].before:
            connection.execute(view.encode())
        connection.execute("set local enable_seqscan = off")
        lines = connection.execute(
            f"explain (analyze, costs off, timing off, summary off) {texts['fct_orders'].code}".encode()
        ).fetchall()
    plan = "\n".join(line for (line,) in lines)
    assert "Index Cond: ((_artifact_id)" in plan
    assert "rows=3.00" in plan
    # The aggregate cannot read the segment of the other days: its input does not name it.
    [old] = {held.segment for held in market.visible(first, "fct_orders").values()}
    [_, new] = (piece.segment for piece in writer.plan.pieces["fct_orders"])
    assert new in "".join(texts["agg_daily"].before)
    assert old not in "".join([*texts["agg_daily"].before, texts["agg_daily"].code])


def test_the_store_gives_a_segment_what_dbt_gives_a_table(market: Market) -> None:
    market.take(range(1, 4))
    built = market.build("fct_orders")
    segment = next(iter(market.visible(built, "fct_orders").values())).segment
    assert described(market, segment) == {
        "columns": [
            ("order_id", "bigint", True, "The number on the receipt."),
            ("placed_on", "date", False, None),
            ("customer", "text", False, None),
            ("euros", "numeric(12,2)", False, None),
            ("_partition", "text", False, None),
        ],
        "comment": "One row per order.",
        "unique": [True],
        "checks": ["cheap"],
        "analyzed": 9.0,
    }
    with pytest.raises(psycopg.errors.InsufficientPrivilege), market.connect() as connection:
        connection.execute(f"insert into store.{segment} default values".encode())


def described(market: Market, table: str) -> dict[str, object]:
    """What a table of the store has, but for the bounds that every segment has of its own."""
    with market.warehouse.connect() as owner:
        columns = owner.execute(
            "select attname, format_type(atttypid, atttypmod), attnotnull, "
            "col_description(attrelid, attnum) from pg_attribute "
            "where attrelid = %s::regclass and attnum > 0 order by attnum",
            [f"store.{table}"],
        ).fetchall()
        [(comment, rows)] = owner.execute(
            "select obj_description(oid, 'pg_class'), reltuples from pg_class "
            "where oid = %s::regclass",
            [f"store.{table}"],
        ).fetchall()
        unique = owner.execute(
            "select indisunique from pg_index where indrelid = %s::regclass", [f"store.{table}"]
        ).fetchall()
        checks = owner.execute(
            "select conname from pg_constraint where conrelid = %s::regclass and contype = 'c' "
            "and not starts_with(conname, 'sluice_bounds_')",
            [f"store.{table}"],
        ).fetchall()
    return {
        "columns": columns,
        "comment": comment,
        "unique": [value for (value,) in unique],
        "checks": [name for (name,) in checks],
        "analyzed": rows,
    }


def test_nobody_can_change_what_a_version_stands_on(market: Market) -> None:
    market.take([1, 2])
    built = market.build("fct_orders")
    view = f"store.{built.relations['fct_orders']}"
    segment = f"store.{market.visible(built, 'fct_orders')[day(1)].segment}"
    statements = [
        *(f"delete from {name}" for name in (segment, view, f"{view}__live")),
        *(f"insert into {name} (order_id) values (7)" for name in (segment, view)),
        f"update {segment} set euros = 0",
        f"truncate {segment}",
        f"drop table {segment} cascade",
        f"drop view {view} cascade",
        f"drop view {view}__live cascade",
        f"create or replace view {view}__live as select 1 as x",
        f"alter table {segment} owner to current_user",
        f"alter view {view}__live owner to current_user",
        "update ops.segment_partitions set row_count = 0",
        "update ops.view_segments set hidden = '{}'",
        "delete from ops.view_segments",
        "delete from ops.partition_checks",
    ]
    for role in (Role.TRANSFORMER, Role.PUBLISHER, Role.ANALYST, Role.GATE):
        with market.warehouse.connect(role, autocommit=True) as connection:
            for statement in statements:
                with pytest.raises(
                    (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
                ):
                    connection.execute(statement.encode())

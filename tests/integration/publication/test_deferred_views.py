"""Schema deferred: what is published, with the partitions that dbt and analysts build on."""

from typing import Any

import psycopg
import pytest
from segment_tables import Segment

from orchestration.warehouse.connections import Role, Warehouse

DAYS = ("2013-01-01", "2013-01-02")
ARTIFACTS = {f"flights.weather/{day}": 1 for day in DAYS}


def partitioned(number: int, more: str = "") -> dict[str, Any]:
    text = (
        f"select {number} as number{more}, d as _partition from unnest(array{list(DAYS)}::text[]) d"
    )
    return {"fct": [Segment(text, DAYS)], "dim": "select 1 as one"}


def columns(flights: Any, schema: str) -> list[tuple[Any, Any]]:
    rows: list[tuple[Any, Any]] = flights.read(
        "select table_name::text, column_name::text from information_schema.columns "
        f"where table_schema = '{schema}' order by table_name, ordinal_position"
    )
    return rows


def test_partitioned_models_are_shown_with_their_partitions_and_follow_the_pointer(
    flights: Any,
) -> None:
    for number in (1, 2, 3):
        flights.publish(flights.build(partitioned(number), ARTIFACTS))
        assert flights.read("select number, _partition from deferred.fct order by 2") == [
            (number, DAYS[0]),
            (number, DAYS[1]),
        ]
    assert columns(flights, "deferred") == [("fct", "number"), ("fct", "_partition")]
    assert columns(flights, "analytics") == [("dim", "one"), ("fct", "number")]
    flights.rollback()
    assert flights.read("select distinct number from deferred.fct") == [(2,)]


def test_who_builds_may_read_them_and_nobody_else(flights: Any, warehouse: Warehouse) -> None:
    flights.publish(flights.build(partitioned(1), ARTIFACTS))
    for role in (Role.ANALYST, Role.TRANSFORMER):
        with warehouse.connect(role) as connection:
            assert connection.execute("select count(*) from deferred.fct").fetchone() == (2,)
    for role in (Role.REVIEWER, Role.GATE):
        with warehouse.connect(role) as connection, pytest.raises(psycopg.Error) as caught:
            connection.execute("select count(*) from deferred.fct")
        assert caught.value.sqlstate == "42501"


def test_a_new_column_is_appended_in_both_schemas_at_once(flights: Any) -> None:
    flights.publish(flights.build(partitioned(1), ARTIFACTS))
    wider = flights.build(partitioned(2, ", 'x'::text as extra"), ARTIFACTS)
    flights.prepare(wider)
    assert flights.read("select extra, _partition from deferred.fct order by 2") == [
        (None, DAYS[0]),
        (None, DAYS[1]),
    ]
    flights.flip(wider)
    assert flights.read("select distinct extra, number from deferred.fct") == [("x", 2)]
    assert flights.read("select distinct extra, number from analytics.fct") == [("x", 2)]


def test_a_model_that_becomes_partitioned_is_shown_from_then_on(flights: Any) -> None:
    flights.publish(flights.build({"fct": "select 0 as number"}, ARTIFACTS))
    flights.publish(flights.build({"fct": partitioned(1)["fct"]}, ARTIFACTS))
    assert flights.read("select distinct number from deferred.fct") == [(1,)]
    flights.rollback()
    assert flights.read("select number, _partition from deferred.fct") == [(0, None)]


def test_an_analysts_view_on_them_survives_publications(flights: Any, warehouse: Warehouse) -> None:
    flights.publish(flights.build(partitioned(1), ARTIFACTS))
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("create schema dev_ana authorization sluice_analyst")
    with warehouse.connect(Role.ANALYST, autocommit=True) as analyst:
        analyst.execute("create view dev_ana.fct as select * from deferred.fct")
    flights.publish(flights.build(partitioned(2, ", 'x'::text as extra"), ARTIFACTS))
    assert flights.read("select * from dev_ana.fct order by 2") == [(2, DAYS[0]), (2, DAYS[1])]

from typing import Any

import pytest

from orchestration.errors import ConfigurationError
from orchestration.publication.shape_check import check_version_shapes
from orchestration.warehouse.connections import Role, Warehouse


def test_new_columns_are_appended_and_hidden_ones_never_shown(flights: Any) -> None:
    flights.publish(flights.build({"fct": "select 1 as number, 'p'::text as _partition"}))
    assert flights.read("select * from analytics.fct") == [(1,)]
    wider = flights.build({"fct": "select 'new'::varchar(9) as extra, 2 as number"})
    flights.prepare(wider)
    assert flights.read("select * from analytics.fct") == [(1, None)]
    flights.flip(wider)
    assert flights.read("select * from analytics.fct") == [(2, "new")]


def test_dropped_and_retyped_columns_are_found_before_the_gate(
    flights: Any, warehouse: Warehouse
) -> None:
    flights.publish(flights.build({"fct": "select 1 as number, 'a'::text as name, 1.5 as share"}))
    broken = flights.build({"fct": "select 1::bigint as number, 1.5 as share"})
    for role in (Role.TRANSFORMER, Role.GATE, Role.RUNNER):
        with warehouse.connect(role) as connection, pytest.raises(ConfigurationError) as caught:
            check_version_shapes(connection, "flights", broken)
        assert caught.value.code == "shape_change"
    assert "fct.name was dropped" in caught.value.message
    assert "fct.number was integer and is now bigint" in caught.value.message
    assert "share" not in caught.value.message
    with pytest.raises(ConfigurationError):
        flights.prepare(broken)
    assert flights.read("select number from analytics.fct") == [(1,)]


def test_a_published_model_that_is_no_longer_built_is_a_shape_change(flights: Any) -> None:
    flights.publish(flights.build({"fct": "select 1 as number", "dim": "select 1 as one"}))
    with pytest.raises(ConfigurationError, match="dim is published and would not be any more"):
        flights.prepare(flights.build({"fct": "select 2 as number"}))


def test_what_others_made_of_a_published_view_survives_publications(
    flights: Any, warehouse: Warehouse
) -> None:
    flights.publish(flights.build({"fct": "select 1 as number"}))
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("create role a_dashboard")
        owner.execute("create schema people")
        owner.execute(
            "create view people.doubled as select number * 2 as double from analytics.fct"
        )
        owner.execute("create materialized view people.kept as select number from analytics.fct")
        owner.execute("comment on view analytics.fct is 'one row a number'")
        owner.execute("comment on column analytics.fct.number is 'which'")
        owner.execute("grant select on analytics.fct to a_dashboard")
        owner.execute("revoke select on analytics.fct from sluice_reviewer")
        owner.execute("alter view analytics.fct set (security_barrier = true)")
    flights.publish(flights.build({"fct": "select 2 as number"}))
    flights.publish(flights.build({"fct": "select 3 as number, 'x'::text as extra"}))
    flights.publish(flights.build({"fct": "select 4 as number, 'y'::text as extra"}))
    with warehouse.connect(autocommit=True) as owner:
        assert owner.execute("select double from people.doubled").fetchone() == (8,)
        owner.execute("refresh materialized view people.kept")
        assert owner.execute(
            "select obj_description('analytics.fct'::regclass), "
            "col_description('analytics.fct'::regclass, 1), "
            "has_table_privilege('a_dashboard', 'analytics.fct', 'select'), "
            "has_table_privilege('sluice_reviewer', 'analytics.fct', 'select'), reloptions "
            "from pg_class where oid = 'analytics.fct'::regclass"
        ).fetchone() == ("one row a number", "which", True, False, ["security_barrier=true"])
        owner.execute("drop schema people cascade")
        owner.execute("drop owned by a_dashboard")
        owner.execute("drop role a_dashboard")


def test_an_interrupted_preparation_continues(flights: Any, warehouse: Warehouse) -> None:
    flights.publish(flights.build({"fct": "select 1 as number"}))
    wider = flights.build({"fct": "select 2 as number, 'x'::text as extra"})
    with warehouse.connect(Role.PUBLISHER) as connection:
        connection.execute(
            "update ops.published_models set columns = "
            """columns || '[{"name": "extra", "type": "text"}]'"""
        )
    flights.publish(wider)
    assert flights.read("select * from analytics.fct") == [(2, "x")]


def test_rows_that_a_relation_hides_stay_hidden(flights: Any) -> None:
    flights.publish(
        flights.build({"fct": "select n as number, n <> 2 as _live from generate_series(1, 3) n"})
    )
    assert flights.read("select number from analytics.fct order by 1") == [(1,), (3,)]


def test_before_the_first_flip_a_published_view_refuses_to_answer(flights: Any) -> None:
    flights.prepare(flights.build({"fct": "select 1 as number"}))
    with pytest.raises(Exception, match="nothing is published yet"):
        flights.read("select * from analytics.fct")

"""What an edit rebuilds and what it does not, with dbt and Postgres themselves."""

from typing import Any

import psycopg
import pytest

from orchestration.errors import InternalError
from orchestration.warehouse.connections import Role
from orchestration.warehouse.dbt.build import run_build
from orchestration.warehouse.dbt.data_tests import run_tests
from orchestration.warehouse.dbt.graph import OutsideModel
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.store import sweep_abandoned, verify_adopted
from orchestration.warehouse.versions import (
    VersionModel,
    VersionRecord,
    create_version_views,
    record_version,
)


def built(plan: Any) -> set[str]:
    return {relation.model for relation in plan.build}


def rows(shop: Any, relation: str, role: Role = Role.GATE) -> list[tuple[Any, ...]]:
    with shop.warehouse.connect(role, **{"sluice.manifest": shop.manifest}) as connection:
        return connection.execute(f"select * from {relation} order by 1").fetchall()


EVERYTHING = {
    "stg_shop__orders",
    "regions",
    "fct_orders",
    "agg_daily",
    "dim_customer",
    "rpt_days",
}


def test_the_same_project_over_the_same_data_builds_nothing_twice(shop: Any) -> None:
    _, _, first = shop.build()
    assert built(first) == EVERYTHING
    assert rows(shop, f"store.{first.relations['agg_daily']}")[0][1] == 2
    assert rows(shop, f"store.{first.relations['dim_customer']}") == [
        ("ann", "north"),
        ("bob", "south"),
    ]
    _, _, second = shop.build()
    assert built(second) == set()
    assert second.relations == first.relations
    with shop.warehouse.connect(Role.TRANSFORMER) as connection:
        assert verify_adopted(connection, list(first.relations.values())) == []


def test_an_edit_rebuilds_the_model_and_what_depends_on_it(shop: Any) -> None:
    shop.build()
    shop.edit("models/marts/agg_daily.sql", "count(*) as orders", "count(*) + 1 as orders")
    _, _, plan = shop.build()
    assert built(plan) == {"agg_daily", "rpt_days"}
    shop.edit("macros/euros.sql", "100.0", "10.0")
    _, _, plan = shop.build()
    assert built(plan) == {"fct_orders", "agg_daily", "rpt_days"}
    shop.edit("seeds/regions.csv", "bob,south", "bob,east")
    _, _, plan = shop.build()
    assert built(plan) == {"regions", "dim_customer"}


def test_words_and_layout_rebuild_nothing(shop: Any) -> None:
    shop.build()
    shop.edit("models/marts/models.yml", "One row per order.", "One row for each order placed.")
    shop.edit(
        "models/marts/agg_daily.sql",
        "select placed_on,",
        "-- per day\nSELECT\n    placed_on, /* how many */  {# and #}",
    )
    shop.edit("macros/euros.sql", "{% macro", "{# in euros #}\n{% macro")
    shop.edit(
        "dbt_project.yml", "{+materialized: versioned}", "{+materialized: versioned, +tags: [x]}"
    )
    (shop.project_dir / "models/marts/daily").mkdir()
    (shop.project_dir / "models/marts/agg_daily.sql").rename(
        shop.project_dir / "models/marts/daily/agg_daily.sql"
    )
    _, _, plan = shop.build()
    assert built(plan) == set()


def test_new_data_rebuilds_tables_and_keeps_the_views_over_live(shop: Any) -> None:
    _, _, first = shop.build()
    shop.manifest, shop.checksums = "m_" + "2" * 16, {"shop.orders": "2" * 64}
    _, _, second = shop.build()
    assert built(second) == {"fct_orders", "agg_daily", "dim_customer", "rpt_days"}
    assert second.relations["stg_shop__orders"] == first.relations["stg_shop__orders"]
    assert [row[0] for row in rows(shop, f"store.{second.relations['fct_orders']}")] == [9]
    shop.manifest, shop.checksums = "m_" + "1" * 16, {"shop.orders": "1" * 64}
    _, _, third = shop.build()
    assert built(third) == set()


def test_a_changed_contract_index_or_constraint_is_built(shop: Any) -> None:
    shop.build()
    shop.edit("models/marts/fct_orders.sql", "'unique': true", "'unique': false")
    _, _, plan = shop.build()
    assert "fct_orders" in built(plan)
    shop.edit(
        "models/marts/models.yml",
        "name: placed_on, data_type: date",
        "name: placed_on, data_type: date, constraints: [{type: not_null}]",
    )
    _, _, plan = shop.build()
    assert "fct_orders" in built(plan)


def test_dbt_gives_the_table_its_constraints_and_indexes(shop: Any) -> None:
    _, _, plan = shop.build("fct_orders")
    with shop.warehouse.connect() as connection:
        indexed, required = connection.execute(
            "select exists (select from pg_index where indrelid = c.oid and indisunique), "
            "exists (select from pg_attribute where attrelid = c.oid and attname = 'order_id' "
            "and attnotnull) from pg_class c where relname = %s",
            [plan.relations["fct_orders"]],
        ).fetchone() or (None, None)
        analyzed = connection.execute(
            "select reltuples from pg_class where relname = %s", [plan.relations["fct_orders"]]
        ).fetchone()
    assert (indexed, required, analyzed) == (True, True, (3.0,))


def test_a_sealed_table_cannot_be_written(shop: Any) -> None:
    _, _, plan = shop.build("fct_orders")
    table = f"store.{plan.relations['fct_orders']}"
    statements = [
        f"insert into {table} (order_id) values (7)",
        f"update {table} set euros = 0",
        f"delete from {table}",
        f"truncate {table}",
        f"drop table {table}",
        f"alter table {table} add column x int",
        f"alter table {table} owner to current_user",
        f"drop view store.{plan.relations['stg_shop__orders']}",
    ]
    for role in (Role.TRANSFORMER, Role.PUBLISHER, Role.ANALYST, Role.RUNNER, Role.GATE):
        with shop.warehouse.connect(role, autocommit=True) as connection:
            for statement in statements:
                with pytest.raises(
                    (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
                ):
                    connection.execute(statement)


def test_the_gate_reads_a_version_through_its_own_schema(shop: Any) -> None:
    graph, keys, plan = shop.build()
    version = "v_" + "a" * 16
    record = VersionRecord(version, "shop", shop.manifest, "r_1", "c_1")
    models = [
        VersionModel(
            model.name,
            plan.relations[model.name],
            keys[model.name].content_key,
            model.kind == "table",
            model.parents,
            model.resources,
        )
        for model in graph.models
    ]
    lease = shop.lease()
    with shop.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
        assert record_version(connection, record, models, lease)
        assert not record_version(connection, record, models, lease)
        for _ in range(2):
            create_version_views(connection, version, plan.relations, lease)
        with pytest.raises(InternalError, match="never adopted"):
            create_version_views(connection, version, {"fct_orders": "nothing"}, lease)
    assert len(rows(shop, f"{version}.fct_orders")) == 3
    assert len(rows(shop, f"{version}.stg_shop__orders")) == 3
    shop.manifest = "m_" + "2" * 16
    assert len(rows(shop, f"{version}.fct_orders")) == 3
    assert len(rows(shop, f"{version}.stg_shop__orders")) == 1


def test_data_tests_are_outcomes_of_the_versions_relations(shop: Any) -> None:
    graph, _, plan = shop.build()
    outcomes = {
        outcome.name: outcome
        for outcome in run_tests(shop.session(Role.GATE), graph, plan.relations)
    }
    assert {name: outcome.status for name, outcome in outcomes.items()} == {
        "unique_fct_orders_order_id": "pass",
        "not_null_fct_orders_customer": "pass",
        "accepted_values_agg_daily_orders__False__1__2": "pass",
        "orders_cost_something": "pass",
    }
    assert outcomes["unique_fct_orders_order_id"].model == "fct_orders"
    assert outcomes["unique_fct_orders_order_id"].column == "order_id"
    shop.edit("models/marts/models.yml", "values: [1, 2]", "values: [2]")
    shop.edit("tests/orders_cost_something.sql", "euros < 0", "customer = 'ann'")
    shop.write(
        "tests/broken.sql", "select * from {{ ref('fct_orders') }} where 1 / (euros - euros) > 0\n"
    )
    graph = shop.graph()
    outcomes = {
        outcome.name: outcome
        for outcome in run_tests(
            shop.session(Role.GATE), graph, plan.relations, ["fct_orders", "agg_daily"]
        )
    }
    warned = next(o for name, o in outcomes.items() if name.startswith("accepted_values"))
    assert (warned.status, warned.severity, warned.failures) == ("warn", "warn", 1)
    failed = outcomes["orders_cost_something"]
    assert (failed.status, failed.failures) == ("fail", 2)
    broken = outcomes["broken"]
    assert (broken.status, broken.failures) == ("error", None)
    assert "22012" in broken.message
    assert "ann" not in "".join(outcome.message for outcome in outcomes.values())


def test_a_model_of_another_pipeline_is_read_as_published(shop: Any) -> None:
    _, keys, plan = shop.build("fct_orders")
    outside = {
        "fct_orders": OutsideModel(plan.relations["fct_orders"], keys["fct_orders"].content_key)
    }
    graph = load_graph(shop.session(), ["agg_daily"], outside=outside)
    assert [model.name for model in graph.models] == ["agg_daily"]
    _, other = shop.plan(graph)
    lease = shop.lease()
    shop.start(other, lease)
    run_build(shop.session(), Writer(graph, keys, other))
    shop.adopt(other, lease)
    assert len(rows(shop, f"store.{other.relations['agg_daily']}")) == 2


def test_nothing_is_swept_while_its_builder_lives(shop: Any) -> None:
    graph = shop.graph("fct_orders")
    keys, plan = shop.plan(graph)
    lease = shop.lease()
    shop.start(plan, lease)
    run_build(shop.session(), Writer(graph, keys, plan))
    with shop.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
        assert sweep_abandoned(connection) == []
    assert shop.adopt(plan, lease).adopted == dict(plan.relations)

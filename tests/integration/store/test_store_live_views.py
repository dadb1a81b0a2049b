"""The views in schema live: which manifest they show, at what cost, and when they are touched."""

from typing import Any

import psycopg
import pytest

from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.live import ensure_live_views, live_shapes

COLUMNS = [
    *("order_id", "placed_on", "customer", "cents"),
    *("_artifact_id", "_partition", "_run_id", "_source_ref"),
]


def seen(warehouse: Warehouse, role: Role, **settings: str) -> list[int]:
    with warehouse.connect(role, **settings) as connection:
        rows = connection.execute("select order_id from live.shop__orders order by 1").fetchall()
    return [row[0] for row in rows]


def publish(warehouse: Warehouse, pipeline: str, manifest: str) -> None:
    with warehouse.connect() as owner:
        owner.execute(
            "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id) "
            "values (%s, %s, %s, 'r', 'c')",
            [f"v_{pipeline}", pipeline, manifest],
        )
        owner.execute(
            "with p as (insert into ops.publications (pipeline, version_id, kind, slot) "
            "values (%s, %s, 'publish', 'a') returning *) insert into ops.publication_pointer "
            "(pipeline, active_slot, version_id, publication_id) "
            "select pipeline, slot, version_id, publication_id from p",
            [pipeline, f"v_{pipeline}"],
        )


def test_a_session_sees_its_own_manifest_or_else_what_is_published(shop: Any) -> None:
    warehouse = shop.warehouse
    assert seen(warehouse, Role.ANALYST) == []
    assert seen(warehouse, Role.TRANSFORMER, **{"sluice.manifest": shop.manifest}) == [1, 2, 3]
    assert seen(warehouse, Role.GATE, **{"sluice.manifest": "m_" + "2" * 16}) == [9]
    with warehouse.connect() as owner:
        owner.execute("insert into ops.manifests values ('m_empty', 'another', 'r_1')")
    publish(warehouse, "another", "m_empty")
    publish(warehouse, "shop", shop.manifest)
    assert seen(warehouse, Role.ANALYST) == [1, 2, 3]
    assert seen(warehouse, Role.ANALYST, **{"sluice.manifest": ""}) == [1, 2, 3]
    assert seen(warehouse, Role.ANALYST, **{"sluice.manifest": "m_" + "2" * 16}) == [9]


def test_rows_of_no_manifest_are_invisible_to_everyone(shop: Any) -> None:
    with shop.warehouse.connect() as owner:
        owner.execute("insert into staging.shop__orders values (77, null, null, 1, 'a_orphan')")
    publish(shop.warehouse, "shop", shop.manifest)
    assert 77 not in seen(shop.warehouse, Role.ANALYST)
    with (
        shop.warehouse.connect(Role.ANALYST) as analyst,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        analyst.execute("select * from staging.shop__orders")


def test_a_view_is_touched_only_when_it_changes(shop: Any) -> None:
    with shop.warehouse.connect(autocommit=True) as owner:
        assert ensure_live_views(owner, {"shop.orders": COLUMNS}) == []
        owner.execute("alter table staging.shop__orders add column note varchar")
        assert ensure_live_views(owner, {"shop.orders": COLUMNS}) == []
        wanted = [*COLUMNS[:4], "note", *COLUMNS[4:]]
        shapes = live_shapes(owner, ["shop.orders"])
        assert ensure_live_views(owner, {"shop.orders": wanted}) == ["shop__orders"]
        assert live_shapes(owner, ["shop.orders"]) != shapes
        assert ensure_live_views(owner, {"shop.orders": wanted}) == []
        assert ensure_live_views(owner, {"shop.orders": COLUMNS}) == []
        names = [
            column.name for column in owner.execute("table live.shop__orders").description or ()
        ]
    assert names == [*COLUMNS, "note"]


def test_a_column_that_staging_lacks_or_retypes_is_a_configuration_error(shop: Any) -> None:
    with shop.warehouse.connect(autocommit=True) as owner:
        with pytest.raises(ConfigurationError, match="no column nothing"):
            ensure_live_views(owner, {"shop.orders": [*COLUMNS, "nothing"]})
        owner.execute("drop view live.shop__orders")
        owner.execute(
            "create view live.shop__orders as select order_id::int from staging.shop__orders"
        )
        with pytest.raises(ConfigurationError, match="Give the changed field a new name"):
            ensure_live_views(owner, {"shop.orders": COLUMNS})


@pytest.mark.parametrize("artifacts", [1, 150])
def test_the_index_on_the_artifact_is_used_for_small_and_large_manifests(
    shop: Any, artifacts: int
) -> None:
    with shop.warehouse.connect() as owner:
        owner.execute(
            "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
            "partition, run_id, lease_name, fence) select 'b_' || i, 'shop', 'shop.orders', "
            "'w' || i, 1, 'p' || i, 'r', 'x', 1 from generate_series(1, 200) as i"
        )
        owner.execute(
            "insert into staging.shop__orders select j, '2024-01-01', 'ann', j, 'b_' || i "
            "from generate_series(1, 200) as i, generate_series(1, 200) as j"
        )
        owner.execute("insert into ops.manifests values ('m_b', 'shop', 'r')")
        owner.execute(
            "insert into ops.manifest_artifacts select 'm_b', 'shop.orders', 'w' || i, 'b_' || i "
            "from generate_series(1, %s::int) as i",
            [artifacts],
        )
        owner.execute("analyze staging.shop__orders, ops.manifest_artifacts")
    with shop.warehouse.connect(Role.TRANSFORMER, **{"sluice.manifest": "m_b"}) as connection:
        count = connection.execute("select count(*) from live.shop__orders").fetchone()
        plan = connection.execute("explain select * from live.shop__orders").fetchall()
    text = "\n".join(row[0] for row in plan)
    assert count == (artifacts * 200,)
    assert "shop__orders__artifact_id_idx" in text
    assert "Seq Scan on shop__orders" not in text

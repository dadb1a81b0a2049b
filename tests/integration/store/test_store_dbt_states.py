"""The dbt state of a version: kept once, the last one counts, gone with the last version it makes."""

from typing import Any

import pytest

from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.keys import compute_keys
from orchestration.warehouse.dbt.sensitive import SourceColumns
from orchestration.warehouse.dbt.state import DbtState, ModelState, describe_state, with_relations
from orchestration.warehouse.states import read_dbt_manifest, read_model_states, record_state

SOURCES = {"shop.orders": SourceColumns(("order_id", "placed_on", "customer", "cents"))}


def state(name: str) -> DbtState:
    manifest = {"nodes": {}, "sources": {}, "name": name}
    return DbtState(
        manifest, {"fct": ModelState("1" * 64, {}, ("id",), "unique_test", frozenset({"name"}))}
    )


@pytest.fixture
def versions(warehouse: Warehouse) -> list[str]:
    names = [f"v_{number}" for number in range(2)]
    with warehouse.connect() as owner:
        owner.execute("insert into ops.manifests values ('m', 'shop', 'r')")
        for name in names:
            owner.execute(
                "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id) "
                "values (%s, 'shop', 'm', 'r', 'c')",
                [name],
            )
    return names


def test_the_state_recorded_last_is_the_versions_and_equal_states_are_kept_once(
    warehouse: Warehouse, versions: list[str]
) -> None:
    one, other = state("one"), state("other")
    for version, recorded in ((0, one), (1, one), (0, other), (0, one), (0, other)):
        with warehouse.connect(Role.TRANSFORMER) as connection:
            record_state(connection, versions[version], recorded)
    with warehouse.connect(Role.ANALYST) as connection:
        assert read_dbt_manifest(connection, versions[0]) == other.manifest
        assert read_dbt_manifest(connection, versions[1]) == one.manifest
        assert read_model_states(connection, versions[0]) == other.models
        assert read_dbt_manifest(connection, "v_9") is None
        assert read_model_states(connection, "v_9") == {}
        counted = connection.execute("select count(*) from ops.dbt_states").fetchone()
        assert counted == (2,)


def test_a_state_goes_with_the_last_version_that_it_makes(
    warehouse: Warehouse, versions: list[str]
) -> None:
    with warehouse.connect(Role.TRANSFORMER) as connection:
        for version in versions:
            record_state(connection, version, state("one"))
    with warehouse.connect(autocommit=True) as owner:
        for version, left in zip(versions, (1, 0), strict=True):
            owner.execute("delete from ops.versions where version_id = %s", [version])
            assert owner.execute("select count(*) from ops.dbt_states").fetchone() == (left,)


def test_the_same_project_has_the_same_state_whenever_and_wherever_it_is_read(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> DbtState:
        graph = shop.graph()
        return describe_state(graph, compute_keys(graph, shop.checksums), {}, SOURCES)

    first = read()
    monkeypatch.setenv("DBT_ENV_CUSTOM_ENV_NIGHT", "monday")
    shop.pristine = None
    second = read()
    assert second.state_id == first.state_id
    assert second.packed_manifest() == first.packed_manifest()
    assert first.models["fct_orders"].key == ("order_id",)
    assert first.models["agg_daily"].key == ()

    shop.edit("models/marts/models.yml", "One row per order.", "One row for each order.")
    described = read()
    assert described.state_id != first.state_id
    assert described.models == first.models


def test_relations_are_put_where_readers_find_them(shop: Any) -> None:
    graph = shop.graph()
    found = describe_state(graph, compute_keys(graph, shop.checksums), {}, SOURCES)
    document = with_relations(found.manifest, {"fct_orders": ("analytics", "fct_orders")}, "here")
    node = document["nodes"]["model.shop.fct_orders"]
    assert node["relation_name"] == '"here"."analytics"."fct_orders"'
    assert document["sources"]["source.shop.shop.orders"]["relation_name"] == (
        '"here"."live"."shop__orders"'
    )
    assert found.manifest["nodes"]["model.shop.fct_orders"]["relation_name"] is None

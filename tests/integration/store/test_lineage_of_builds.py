"""Lineage says of each partition what its key depends on: no more, no less."""

from dataclasses import replace
from typing import Any

import pytest
from market import CUSTOMERS, ORDERS, Built, Market, day

from orchestration.publication.lineage import trace
from orchestration.warehouse.connections import Role
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.planning import keys_of
from orchestration.warehouse.states import state_of
from orchestration.warehouse.versions import VersionRecord, record_version

VERSION = "v_" + "1" * 16


def record(market: Market, built: Built) -> None:
    version = VersionRecord(VERSION, "shop", built.manifest.manifest_id, "r_1", "c_1")
    with market.connect() as connection:
        state = state_of(connection, built.graph, built.keys)
        record_version(connection, version, built.version_models(), market.lease(), state)


def lineage(market: Market, item: str) -> dict[str, Any]:
    with market.warehouse.connect(Role.GATE, autocommit=True) as connection:
        return trace(connection, item)


def changed(market: Market, built: Built, resource: str, window: str) -> dict[str, set[str] | None]:
    """model → the partitions that other rows in this window would change; None: the model as a whole."""
    others = tuple(
        replace(artifact, checksum="0" * 64)
        if (artifact.resource, artifact.window_name) == (resource, window)
        else artifact
        for artifact in built.manifest.artifacts
    )
    with market.connect() as connection:
        keys = keys_of(
            connection, built.graph, Manifest(built.manifest.manifest_id, "shop", others)
        )
    found: dict[str, set[str] | None] = {}
    for model in built.graph.models:
        before, after = built.keys[model.name], keys[model.name]
        if before.content_key == after.content_key:
            continue
        own = before.partition_keys or {}
        rebuilt = {name for name in own if own[name] != (after.partition_keys or {}).get(name)}
        found[model.name] = rebuilt if model.is_partitioned and rebuilt != set(own) else None
    return found


@pytest.mark.slow
def test_a_window_is_traced_to_what_it_would_change(market: Market) -> None:
    market.take(range(1, 12))
    market.build()
    market.put([(1, day(5), "ann", 1)], day(5))
    built = market.build()
    record(market, built)
    for resource, window in ((ORDERS, day(5)), (ORDERS, day(11)), (CUSTOMERS, "snapshot")):
        [version] = lineage(market, f"{resource}/{window}")["versions"]
        traced: dict[str, set[str] | None] = {}
        for entry in version["models"]:
            partitions = entry["partitions"]
            if partitions is None:
                traced[entry["model"]] = None
            else:
                traced[entry["model"]] = (traced.get(entry["model"]) or set()) | set(partitions)
        assert traced == changed(market, built, resource, window)
    assert traced == dict.fromkeys(["stg_customers", "dim_customer", "agg_daily"])


@pytest.mark.slow
def test_a_mean_of_seven_days_is_traced_to_seven_days_wherever_its_segments_lie(
    market: Market,
) -> None:
    for number in range(1, 10):
        market.take([number])
        built = market.build() if number in (6, 9) else None
    assert built is not None
    record(market, built)
    [version] = lineage(market, VERSION)["versions"]
    [means] = [model for model in version["models"] if model["model"] == "mean_week"]
    assert len(means["segments"]) > 1
    partitions = {
        item["partition"]: item for segment in means["segments"] for item in segment["partitions"]
    }
    assert sorted(partitions) == [day(number) for number in range(1, 10)]
    assert partitions[day(9)]["artifacts"] == [
        f"{ORDERS}/{day(number)}@1" for number in range(3, 10)
    ]
    assert partitions[day(2)]["artifacts"] == [f"{ORDERS}/{day(number)}@1" for number in (1, 2)]
    assert means["artifacts"] == []
    assert means["resources"] == [ORDERS]

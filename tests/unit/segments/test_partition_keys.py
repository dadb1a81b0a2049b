"""Keys of partitions: they follow what a partition is made from, and nothing else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingestion.partitions import SNAPSHOT
from orchestration.errors import ConfigurationError
from orchestration.identity import ArtifactId, ManifestId
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.dbt.graph import ModelNode, OutsideModel, ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys, compute_keys
from orchestration.warehouse.manifests import Manifest

DAYS = [f"2013-02-{number:02d}" for number in range(1, 21)]
RESOURCES = ("shop.orders", "shop.rates", "shop.customers")


def node(name: str, *parents: str, partitioned: bool = False, **changes: Any) -> ModelNode:
    defaults: dict[str, Any] = {
        "kind": "table",
        "materialized": "versioned",
        "resources": (),
        "compiled_code": f"select 1 as {name}",
    }
    if partitioned:
        defaults["partition_by"] = "_partition"
        defaults["contract"] = (["a", "integer", False, []], ["_partition", "text", False, []])
    return ModelNode(
        name=name,
        unique_id=f"model.shop.{name}",
        path=f"models/{name}.sql",
        parents=parents,
        **(defaults | changes),
    )


def view(name: str, *parents: str, **changes: Any) -> ModelNode:
    return node(name, *parents, kind="view", materialized="view", **changes)


STG = view("stg", resources=("shop.orders",))
RATES = view("rates", resources=("shop.rates",))
DIM = node("dim", resources=("shop.customers",))
FCT = node("fct", "stg", partitioned=True)
BIG = view("big", "fct")
AGG = node("agg", "big", "dim", partitioned=True)
RATED = node("rated", "fct", "rates", partitioned=True)
WEEK = node("week", "fct", partitioned=True, lookback=6)
TOTAL = node("total", "fct")
GRAPH = ProjectGraph((STG, RATES, DIM, FCT, BIG, AGG, RATED, WEEK, TOTAL))

AFTER_FCT = {"fct", "big", "agg", "rated", "week", "total"}

Contents = Mapping[str, Mapping[str, str]]
"""resource → window → checksum"""


def artifact(resource: str, window: str, checksum: str, number: int = 1) -> Artifact:
    partition = f"{resource}/{window}@{number}"
    return Artifact(
        ArtifactId(f"a_{partition}"), "shop", resource, window, number, partition, "r_1", "adopted",
        len(checksum), len(checksum), 0, checksum, "1", [], None, "accepted", None,
    )  # fmt: skip


def manifest(contents: Contents, number: int = 1) -> Manifest:
    return Manifest(
        ManifestId("m_1"),
        "shop",
        tuple(
            artifact(resource, window, checksum, number)
            for resource, windows in contents.items()
            for window, checksum in windows.items()
        ),
    )


def keys_of(
    contents: Contents, graph: ProjectGraph = GRAPH, number: int = 1
) -> dict[str, ModelKeys]:
    built_from = manifest(contents, number)
    windows = {
        resource: {name: f"{held.loaded}:{held.checksum}" for name, held in entries.items()}
        for resource, entries in built_from.windows(graph.resources).items()
    }
    return compute_keys(graph, built_from.checksums(graph.resources), {}, windows)


def partitions(contents: Contents, model: str, graph: ProjectGraph = GRAPH) -> dict[str, str]:
    return dict(keys_of(contents, graph)[model].partition_keys or {})


def differing(model: str, before: Contents, after: Contents) -> set[str]:
    """Partitions that both have, with another key."""
    old, new = partitions(before, model), partitions(after, model)
    return {name for name in old if name in new and old[name] != new[name]}


def contents(orders: Mapping[str, str], customers: str = "c", rates: str = "r") -> Contents:
    return {
        "shop.orders": orders,
        "shop.rates": dict.fromkeys(DAYS, rates),
        "shop.customers": {SNAPSHOT: customers},
    }


EVERY_DAY = dict.fromkeys(DAYS, "x")
BASE = contents(EVERY_DAY)
days = st.dictionaries(st.sampled_from(DAYS), st.sampled_from("xyz"), min_size=1)


@settings(max_examples=30)
@given(days, days)
def test_a_partition_changes_with_its_own_window_alone(
    before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    expected = {name for name in before if name in after and before[name] != after[name]}
    for model in ("stg", "fct", "big", "agg"):
        assert differing(model, contents(before), contents(after)) == expected
    old = partitions(contents(before), "fct")
    assert sorted(old) == sorted(before)


@settings(max_examples=30)
@given(days, days)
def test_with_a_lookback_it_changes_with_the_partitions_before_it_too(
    before: Mapping[str, str], after: Mapping[str, str]
) -> None:
    old, new = (sorted(partitions(contents(each), "week")) for each in (before, after))
    for name in set(old) & set(new):
        read_before = [(d, before.get(d)) for d in old[max(0, old.index(name) - 6) :][:7]]
        read_after = [(d, after.get(d)) for d in new[max(0, new.index(name) - 6) :][:7]]
        upto = [each for each in read_before if each[0] <= name]
        assert (upto == [each for each in read_after if each[0] <= name]) == (
            name not in differing("week", contents(before), contents(after))
        )


def test_the_windows_that_a_partition_reads_are_named() -> None:
    keys = keys_of(BASE)
    assert keys["week"].windows[DAYS[9]] == tuple(DAYS[3:10])
    assert keys["week"].windows[DAYS[0]] == (DAYS[0],)
    assert keys["fct"].windows[DAYS[9]] == (DAYS[9],)


def test_partitions_of_different_days_have_different_keys_also_when_they_hold_the_same() -> None:
    for model in ("fct", "week", "agg"):
        found = partitions(BASE, model)
        assert len(set(found.values())) == len(found) == len(DAYS)


def test_a_refresh_with_equal_content_keeps_every_key() -> None:
    assert keys_of(BASE, number=1) == keys_of(BASE, number=2)


@settings(max_examples=20)
@given(st.permutations(list(EVERY_DAY.items())), st.permutations(RESOURCES))
def test_the_order_of_artifacts_does_not_matter(
    orders: list[tuple[str, str]], resources: list[str]
) -> None:
    mixed = contents(dict(orders))
    assert keys_of({name: mixed[name] for name in resources}) == keys_of(BASE)


def test_a_snapshot_joins_every_partition_of_what_reads_it_with_its_content() -> None:
    other = contents(EVERY_DAY, customers="d")
    assert differing("agg", BASE, other) == set(DAYS)
    for model in ("fct", "week", "rated", "big", "stg"):
        assert keys_of(BASE)[model] == keys_of(other)[model]
    assert keys_of(BASE)["dim"].partition_keys is None


def test_of_two_inputs_by_window_each_counts() -> None:
    other = contents(EVERY_DAY, rates="s")
    assert differing("rated", BASE, other) == set(DAYS)
    assert differing("fct", BASE, other) == set()
    fewer = contents(dict.fromkeys(DAYS[:3], "x"))
    assert sorted(partitions(fewer, "rated")) == DAYS
    assert differing("rated", BASE, fewer) == set(DAYS[3:])


def test_a_resource_of_which_nothing_is_there_yet_is_no_snapshot() -> None:
    before = {name: held for name, held in BASE.items() if name != "shop.rates"}
    after = before | {"shop.rates": {DAYS[4]: "r"}}
    assert differing("rated", before, after) == {DAYS[4]}
    nothing = {"shop.customers": {SNAPSHOT: "c"}}
    assert partitions(nothing, "fct") == {}
    # Customers are not there either, so nobody knows yet that they come as snapshots.
    assert partitions({"shop.orders": EVERY_DAY}, "agg").keys() == set(DAYS)


def test_an_empty_window_is_a_partition_and_a_missing_one_is_none() -> None:
    with_empty = contents({"2013-02-01": "x", "2013-02-02": ""})
    assert sorted(partitions(with_empty, "fct")) == ["2013-02-01", "2013-02-02"]
    assert differing("fct", with_empty, BASE) == {"2013-02-02"}


@pytest.mark.parametrize(
    ("model", "changes", "followers"),
    [
        (FCT, {"compiled_code": "select 2 as fct"}, AFTER_FCT),
        (BIG, {"compiled_code": "select 2 as big"}, {"big", "agg"}),
        (STG, {"compiled_code": "select 2 as stg"}, {m.name for m in GRAPH.models} - {"dim", "rates"}),
        (WEEK, {"lookback": 5}, {"week"}),
        (FCT, {"config": {"indexes": [{"columns": ["a"]}]}}, AFTER_FCT),
        (FCT, {"description": "words"}, set()),
    ],
)  # fmt: skip
def test_a_definition_joins_every_partition_of_all_that_follows(
    model: ModelNode, changes: Mapping[str, Any], followers: set[str]
) -> None:
    edited = ProjectGraph(
        tuple(replace(m, **changes) if m.name == model.name else m for m in GRAPH.models)
    )
    before, after = keys_of(BASE), keys_of(BASE, edited)
    assert {name for name in before if before[name].content_key != after[name].content_key} == (
        followers
    )
    for name in followers - {"total", "week"}:
        old, new = before[name].partition_keys or {}, after[name].partition_keys or {}
        assert all(old[each] != new[each] for each in DAYS)


def test_a_lookback_changes_no_key_of_what_has_nothing_before_it() -> None:
    shorter = ProjectGraph(
        tuple(replace(m, lookback=1, config={"lookback": 1}) if m is WEEK else m for m in GRAPH.models)
    )  # fmt: skip
    without = ProjectGraph(
        tuple(replace(m, lookback=0, config={"lookback": 0}) if m is WEEK else m for m in GRAPH.models)
    )  # fmt: skip
    keys = [keys_of(BASE, graph)["week"] for graph in (shorter, without)]
    assert keys[0].definition_key != keys[1].definition_key


def test_a_model_of_another_pipeline_joins_every_partition() -> None:
    reader = replace(FCT, outside=("theirs",))
    graphs = [
        ProjectGraph((STG, reader), {"theirs": OutsideModel("theirs__1", key * 64)}) for key in "12"
    ]
    old, new = (partitions(BASE, "fct", graph) for graph in graphs)
    assert all(old[name] != new[name] for name in DAYS)


def test_partition_by_without_anything_that_is_loaded_by_window_is_refused() -> None:
    alone = node("alone", "dim", partitioned=True)
    with pytest.raises(ConfigurationError, match=r"alone .*loaded by window"):
        keys_of(BASE, ProjectGraph((DIM, alone)))

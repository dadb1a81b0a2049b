"""What a model with partition_by may not be, each with a way out."""

from collections.abc import Mapping
from typing import Any

import pytest

from orchestration.errors import ConfigurationError
from orchestration.warehouse.dbt.checks import check_models
from orchestration.warehouse.dbt.graph import ModelNode, ProjectGraph

COLUMNS: tuple[list[Any], ...] = (["a", "integer", False, []], ["_partition", "text", False, []])


def node(name: str = "m", **changes: Any) -> ModelNode:
    settings: dict[str, Any] = {
        "kind": "table",
        "materialized": "versioned",
        "parents": (),
        "resources": ("shop.orders",),
        "compiled_code": 'select a, _partition from "sluice"."source"."shop__orders"',
        "partition_by": "_partition",
        "contract": COLUMNS,
    }
    return ModelNode(
        name=name, unique_id=f"model.shop.{name}", path=f"models/{name}.sql", **(settings | changes)
    )


def test_an_ordinary_partitioned_model_is_not_refused() -> None:
    check_models(ProjectGraph((node(),)))
    check_models(ProjectGraph((node(lookback=6),)))
    quoted = (["Select", "integer", True, []], ["_partition", "TEXT", True, []])
    check_models(ProjectGraph((node(contract=quoted),)))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"partition_by": "day"}, "partition_by='_partition'"),
        ({"partition_by": {"field": "day"}}, "partition_by='_partition'"),
        ({"materialized": "table"}, "'versioned'"),
        ({"materialized": "view", "kind": "view"}, "'versioned'"),
        ({"materialized": "incremental"}, "incremental"),
        ({"lookback": -1}, "0 to 1000"),
        ({"lookback": 1001}, "0 to 1000"),
        ({"lookback": "6"}, "0 to 1000"),
        ({"lookback": True}, "0 to 1000"),
        ({"lookback": 1.5}, "0 to 1000"),
        ({"partition_by": None, "lookback": 3}, "without partition_by"),
        ({"contract": ()}, "enforce its contract"),
        ({"contract": COLUMNS[::-1]}, "last column"),
        ({"contract": (COLUMNS[0], ["_partition", "date", False, []])}, "data_type text"),
        ({"contract": (["_live", "boolean", False, []], *COLUMNS)}, "_live is taken"),
        ({"depends_on_moment": ("now",)}, "may not depend on the moment"),
    ],
)
def test_what_cannot_be_built_a_partition_at_a_time_is_refused(
    changes: Mapping[str, Any], word: str
) -> None:
    with pytest.raises(ConfigurationError, match=r"m \(models/m.sql\)") as raised:
        check_models(ProjectGraph((node(**changes),)))
    assert word in raised.value.message


def test_sql_that_is_known_when_it_runs_does_not_mix_with_partitions() -> None:
    reader = node("reader", parents=("m",), partition_by=None, depends_on_moment=("run_query",))
    with pytest.raises(ConfigurationError, match=r"reader .* reads m, which has partition_by"):
        check_models(ProjectGraph((node(), reader)))
    now = node(
        "now", kind="view", materialized="view", partition_by=None, depends_on_moment=("now",)
    )
    between = node("between", parents=("now",), kind="view", materialized="view", partition_by=None)
    below = node("below", parents=("between",))
    with pytest.raises(ConfigurationError, match=r"below .* reads now, a view that depends"):
        check_models(ProjectGraph((now, between, below)))
    stored = node("now", partition_by=None, depends_on_moment=("now",))
    check_models(ProjectGraph((stored, between, below)))


@pytest.mark.parametrize("name", ["Orders", "fct-orders", "fct orders", "größe", "1st"])
def test_a_name_that_the_store_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="small letters"):
        check_models(ProjectGraph((node(name),)))

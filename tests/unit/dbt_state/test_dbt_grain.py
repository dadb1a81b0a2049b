"""The key by which rows of two versions are matched is the one that the project declares."""

from typing import Any

from orchestration.warehouse.dbt.grain import Grain, declared_grain

MODEL = "model.shop.fct_orders"


def manifest(
    *tests: dict[str, Any],
    constraints: list[dict[str, Any]] | None = None,
    columns: dict[str, list[str]] | None = None,
) -> dict[str, Any]:
    declared = {"order_id": [], "line": [], "sku": []} if columns is None else columns
    model = {
        "resource_type": "model",
        "constraints": constraints or [],
        "columns": {
            name: {"name": name, "constraints": [{"type": kind} for kind in kinds]}
            for name, kinds in declared.items()
        },
    }
    return {"nodes": {MODEL: model, **{f"test.{n}": test for n, test in enumerate(tests)}}}


def unique(column: str, model: str = MODEL, **config: Any) -> dict[str, Any]:
    return a_test("unique", {"column_name": column}, model, **config)


def a_test(name: str, kwargs: dict[str, Any], model: str = MODEL, **config: Any) -> dict[str, Any]:
    return {
        "resource_type": "test",
        "attached_node": model,
        "config": config,
        "test_metadata": {"name": name, "kwargs": kwargs},
    }


def test_a_primary_key_comes_before_any_test() -> None:
    of_model = [{"type": "primary_key", "columns": ["order_id", "line"]}]
    assert declared_grain(manifest(unique("sku"), constraints=of_model), MODEL) == Grain(
        ("order_id", "line"), "primary_key"
    )
    of_column = {"order_id": ["not_null", "primary_key"], "sku": []}
    assert declared_grain(manifest(unique("sku"), columns=of_column), MODEL) == Grain(
        ("order_id",), "primary_key"
    )


def test_one_unique_column_comes_before_a_combination() -> None:
    combination = a_test("unique_combination", {"columns": ["order_id", "line"]})
    assert declared_grain(manifest(combination), MODEL) == Grain(
        ("order_id", "line"), "unique_test"
    )
    assert declared_grain(manifest(combination, unique("sku")), MODEL) == Grain(
        ("sku",), "unique_test"
    )
    other = a_test("unique_combination_of_columns", {"combination_of_columns": ["line", "sku"]})
    assert declared_grain(manifest(other), MODEL) == Grain(("line", "sku"), "unique_test")


def test_what_does_not_hold_for_all_rows_is_no_key() -> None:
    for test in (
        unique("order_id", where="line = 1"),
        unique("order_id", model="model.shop.other"),
        unique("order_id || line"),
        a_test("not_null", {"column_name": "order_id"}),
    ):
        assert declared_grain(manifest(test), MODEL) is None


def test_a_project_that_names_no_columns_is_taken_at_its_word() -> None:
    assert declared_grain(manifest(unique("order_id"), columns={}), MODEL) == Grain(
        ("order_id",), "unique_test"
    )

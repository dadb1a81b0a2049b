"""Why a key is another one: the part that differs is named, and nothing else."""

import json
from dataclasses import replace
from typing import Any

import pytest

from orchestration.warehouse.dbt.graph import ModelNode
from orchestration.warehouse.dbt.keys import definition_inputs, tool_versions
from orchestration.warehouse.dbt.parts import Reason, definition_parts, explain

MODEL = ModelNode(
    name="fct_orders",
    unique_id="model.shop.fct_orders",
    path="models/fct_orders.sql",
    kind="table",
    materialized="versioned",
    parents=("stg_orders",),
    resources=("shop.orders",),
    compiled_code='select cents / 100.0 as euros from "sluice"."model"."stg_orders"',
    config={"indexes": [{"columns": ["euros"]}]},
    contract=(["euros", "numeric", False, []],),
    build_macros=("versioned",),
    jinja=(
        ("models/fct_orders.sql", "select {{ euros('cents') }} from {{ ref('stg_orders') }}"),
        ("macros/euros.sql", "{% macro euros(cents) %}{{ cents }} / 100.0{% endmacro %}"),
        ("models/int_orders.sql", "select * from {{ ref('stg_orders') }}"),
    ),
)
MACRO_FILES = {"macros/euros.sql"}


def parts(
    model: ModelNode = MODEL,
    shapes: dict[str, str] | None = None,
    tools: dict[str, str] | None = None,
) -> dict[str, Any]:
    inputs = definition_inputs(model, tools or tool_versions(), shapes or {"shop.orders": "1"})
    found = definition_parts(model, inputs, MACRO_FILES)
    # As the warehouse gives it back.
    return dict(json.loads(json.dumps(found)))


def edited(model: ModelNode, path: str, code: str) -> ModelNode:
    jinja = tuple((name, "select 'edited'" if name == path else text) for name, text in model.jinja)
    return replace(model, jinja=jinja, compiled_code=code)


def test_a_model_that_was_not_there_is_new() -> None:
    assert explain(None, parts()) == [Reason("new_model")]


def test_the_same_model_has_no_reason() -> None:
    assert explain(parts(), parts()) == []


@pytest.mark.parametrize(
    ("after", "reason", "words"),
    [
        (
            edited(MODEL, "models/fct_orders.sql", "select 1 as euros"),
            Reason("sql"),
            "SQL changed",
        ),
        (
            edited(MODEL, "macros/euros.sql", "select 1 as euros"),
            Reason("macro", "macros/euros.sql"),
            "macro changed: macros/euros.sql",
        ),
        (
            edited(MODEL, "models/int_orders.sql", "select 1 as euros"),
            Reason("ephemeral_model", "models/int_orders.sql"),
            "ephemeral model changed: models/int_orders.sql",
        ),
        (
            replace(MODEL, compiled_code="select 2 as euros"),
            Reason("environment"),
            "a variable or environment value in its SQL changed",
        ),
        (
            replace(MODEL, config={"indexes": []}),
            Reason("config", "indexes"),
            "config changed: indexes",
        ),
        (replace(MODEL, contract=()), Reason("contract"), "contract changed"),
        (replace(MODEL, build_macros=()), Reason("materialization"), "how it is built changed"),
        (replace(MODEL, seed_checksum="1"), Reason("seed"), "seed changed"),
    ],
)
def test_the_part_that_changed_is_the_only_reason(
    after: ModelNode, reason: Reason, words: str
) -> None:
    assert explain(parts(), parts(after)) == [reason]
    assert str(reason) == words


def test_a_file_that_changed_without_changing_the_sql_is_no_reason() -> None:
    after = edited(MODEL, "macros/euros.sql", MODEL.compiled_code)
    assert explain(parts(), parts(after)) == []


def test_new_columns_of_a_source_and_new_tools_are_reasons() -> None:
    assert explain(parts(), parts(shapes={"shop.orders": "2"})) == [
        Reason("source_columns", "shop.orders")
    ]
    newer = tool_versions() | {"dbt-core": "9.9"}
    assert explain(parts(), parts(tools=newer)) == [Reason("tool", "dbt-core")]


def test_several_changes_are_all_named() -> None:
    after = edited(replace(MODEL, contract=()), "models/fct_orders.sql", "select 1 as euros")
    assert explain(parts(), parts(after)) == [Reason("sql"), Reason("contract")]


def test_stored_parts_show_no_sql() -> None:
    assert "cents" not in json.dumps(parts())

"""A data test is run again when it says something else, not when it is described or moved."""

from copy import deepcopy
from typing import Any

from orchestration.warehouse.dbt.test_changes import changed_tests

MANIFEST: dict[str, Any] = {
    "nodes": {
        "model.shop.fct": {"resource_type": "model"},
        "test.shop.positive": {
            "resource_type": "test",
            "raw_code": "select * from {{ ref('fct') }} where cents < 0",
            "test_metadata": None,
            "config": {"severity": "ERROR", "where": None, "tags": []},
            "depends_on": {"macros": ["macro.shop.outer"]},
            "original_file_path": "tests/positive.sql",
            "description": "",
        },
    },
    "macros": {
        "macro.shop.outer": {
            "macro_sql": "{{ inner() }}",
            "depends_on": {"macros": ["macro.shop.inner"]},
        },
        "macro.shop.inner": {"macro_sql": "1", "depends_on": {"macros": ["macro.shop.outer"]}},
    },
}
TEST = "test.shop.positive"


def edited(path: list[str], value: Any) -> dict[str, Any]:
    manifest = deepcopy(MANIFEST)
    place = manifest
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return manifest


def test_what_a_test_asks_decides() -> None:
    assert changed_tests(MANIFEST, deepcopy(MANIFEST)) == set()
    for path, value in (
        (["nodes", TEST, "raw_code"], "select 1"),
        (["nodes", TEST, "config", "severity"], "WARN"),
        (["nodes", TEST, "config", "where"], "cents > 1"),
        (["macros", "macro.shop.inner", "macro_sql"], "2"),
    ):
        assert changed_tests(MANIFEST, edited(path, value)) == {TEST}, path


def test_where_it_stands_and_how_it_is_described_does_not() -> None:
    for path, value in (
        (["nodes", TEST, "original_file_path"], "tests/other.sql"),
        (["nodes", TEST, "description"], "Money is positive."),
        (["nodes", TEST, "config", "tags"], ["money"]),
    ):
        assert changed_tests(MANIFEST, edited(path, value)) == set(), path


def test_new_tests_and_those_of_an_unknown_past_are_run() -> None:
    nothing = {"nodes": {}, "macros": {}}
    assert changed_tests(nothing, MANIFEST) == {TEST}
    assert changed_tests(None, MANIFEST) == {TEST}
    assert changed_tests(MANIFEST, nothing) == set()

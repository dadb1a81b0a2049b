"""What is said of a comparison: bounded, readable as Markdown, without values that must not be shown."""

import json
import re

import pytest
from rich.console import Console

from orchestration.comparison.markdown import as_markdown, span
from orchestration.comparison.text import as_text
from orchestration.comparison.value import (
    HIDDEN,
    ColumnChange,
    Example,
    ModelDiff,
    PartitionChange,
    RowCounts,
    SideLabel,
    VersionDiff,
)
from orchestration.publication.shapes import Column, ShapeChange

BEFORE = SideLabel("v_1", "flights", "published", "0123456789abcdef", dirty=False)
AFTER = SideLabel("v_2", "flights", "passed", "fedcba9876543210", dirty=True)


def changed(name: str = "fct_orders", **facts: object) -> ModelDiff:
    values: dict[str, object] = {
        "rows_before": 1000,
        "rows_after": 1001,
        "key": ("order_id",),
        "key_source": "unique_test",
        "counts": RowCounts(added=2, removed=1, changed=3),
    }
    return ModelDiff(name, "changed", **{**values, **facts})  # type: ignore[arg-type]


def text_of(diff: VersionDiff) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(as_text(diff))
    return captured.get()


def test_every_format_names_versions_commits_and_local_changes() -> None:
    diff = VersionDiff(BEFORE, AFTER, (changed(),))
    for text in (as_markdown(diff), text_of(diff)):
        assert "v_1" in text
        assert "commit 0123456789" in text
        assert "commit fedcba9876 with local changes" in text
    assert diff.as_json()["after"]["dirty"] is True


def test_counts_columns_examples_partitions_and_schema_are_all_said() -> None:
    model = changed(
        shape=ShapeChange(
            added=(Column("region", "text"),),
            dropped=(Column("city", "text"),),
            retyped=((Column("cents", "integer"), Column("cents", "bigint")),),
        ),
        columns=(ColumnChange("cents", 3, examples=(Example(("7",), "10", None),)),),
        added_examples=(Example(("8",)),),
        removed_examples=(Example(("9",)),),
        partitions=(PartitionChange("2013-01-02", 4, 5, RowCounts(1, 0, 3)),),
        partitions_same=30,
        duplicate_keys=4,
    )
    diff = VersionDiff(BEFORE, AFTER, (model, ModelDiff("dim_region", "unchanged", 5, 5)))
    markdown, text, found = as_markdown(diff), text_of(diff), json.loads(json.dumps(diff.as_json()))
    for words in (markdown, text):
        assert "column region (text) added" in words
        assert "column city (text) dropped" in words
        assert "column cents (integer → bigint)" not in words
        assert "column cents retyped from integer to bigint" in words
        assert "matched by order_id (unique test)" in words
        assert "1 of 31 partitions differ" in words
        assert "4 keys are on several rows" in words
        for shown in ("order_id=7", "order_id=8", "order_id=9", "2013-01-02", "dim_region"):
            assert shown in words
    assert "| `fct_orders` |  | 1,000 → 1,001 | 2 | 1 | 3 |" in markdown
    [shown] = found["models"]
    assert found["same"] == ["dim_region"]
    assert shown["columns"][0]["examples"] == [
        {"key": {"order_id": "7"}, "before": "10", "after": None}
    ]
    assert shown["shape"]["retyped"] == [{"name": "cents", "before": "integer", "after": "bigint"}]


def test_a_model_without_a_key_says_how_it_was_compared_and_what_would_help() -> None:
    diff = VersionDiff(BEFORE, AFTER, (changed(key=(), key_source=None),))
    for text in (as_markdown(diff), text_of(diff)):
        assert "rows are compared whole" in text
        assert "unique test" in text


def test_new_and_vanished_models_are_told_from_changed_ones() -> None:
    diff = VersionDiff(
        BEFORE,
        AFTER,
        (ModelDiff("dim_new", "added", rows_after=7), ModelDiff("dim_old", "removed", 9)),
    )
    assert "| `dim_new` | new | - → 7 |" in as_markdown(diff)
    assert "| `dim_old` | gone | 9 → - |" in as_markdown(diff)
    assert re.search(r"dim_new .* new model", text_of(diff))


def test_columns_of_a_sensitive_field_say_that_they_differ_and_nothing_else() -> None:
    model = changed(
        key=("person",),
        columns=(ColumnChange("person_name", 3, True, (Example((HIDDEN,), HIDDEN, HIDDEN),)),),
        added_examples=(Example((HIDDEN,)),),
    )
    diff = VersionDiff(BEFORE, AFTER, (model,))
    for text in (as_markdown(diff), text_of(diff)):
        assert "values of a sensitive field are not shown" in text
        assert "for example:" not in text
    [column] = diff.as_json()["models"][0]["columns"]
    assert column == {
        "column": "person_name",
        "rows": 3,
        "is_hidden": True,
        "examples": [{"key": {"person": HIDDEN}}],
    }


def test_a_comment_stays_within_its_bound_however_much_differs_and_says_what_is_left_out() -> None:
    partitions = tuple(
        PartitionChange(f"2013-{number:04}", 1, 2, RowCounts(1)) for number in range(400)
    )
    columns = tuple(
        ColumnChange(f"column_{number}", 1, examples=(Example(("k",), "x" * 80, "y" * 80),) * 3)
        for number in range(200)
    )
    models = tuple(
        changed(f"model_{number}", partitions=partitions, columns=columns) for number in range(300)
    )
    text = as_markdown(VersionDiff(BEFORE, AFTER, models))
    assert len(text.encode()) < 65_536
    assert "more partitions" in text
    assert "more columns" in text
    assert "more models" in text
    assert re.search(r"Details of \d+ models are left out here: `sluice diff v_1 v_2`", text)
    assert text.count("<details>") == text.count("</details>") > 0


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "`plain`"),
        ("a|b", "`a\\|b`"),
        ("two\nlines", "`two lines`"),
        ("tick ` tick", "`` tick ` tick ``"),
        ("``", "``` `` ```"),
        ("<b>@everyone</b>", "`<b>@everyone</b>`"),
        ("", "(empty)"),
        (" \n ", "(empty)"),
    ],
)
def test_no_value_is_read_as_markup(value: str, shown: str) -> None:
    assert span(value) == shown


def test_when_nothing_differs_every_format_says_so() -> None:
    diff = VersionDiff(BEFORE, AFTER, (ModelDiff("dim_region", "unchanged", 5, 5),))
    assert "Readers would see the same rows" in as_markdown(diff)
    assert "Readers would see the same rows" in text_of(diff)
    assert diff.as_json()["models"] == []

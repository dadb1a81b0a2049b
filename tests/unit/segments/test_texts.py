"""The SQL around segments, read back by a parser: names and values stay names and values."""

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment
from sqlglot import exp

from orchestration.warehouse.dbt.graph import ModelNode
from orchestration.warehouse.dbt.patching import _raw
from orchestration.warehouse.segments.layout import Piece
from orchestration.warehouse.segments.texts import (
    resolve,
    segment_views,
    some_artifacts,
    some_partitions,
    temporary_view,
    without_partitions,
)

COLUMNS = ("order_id", "Select", 'a "quoted" one', "naïve", "_partition")
DAYS = tuple(f"2013-{number:05d}" for number in range(3000))


def parsed(text: str) -> exp.Expression:
    [tree] = sqlglot.parse(text, dialect="postgres")
    assert tree is not None
    return tree


def columns_of(select: exp.Expression) -> list[str]:
    return [each.alias_or_name for each in select.expressions]


def test_views_name_the_columns_as_the_contract_does() -> None:
    live, clean = segment_views("m__1", COLUMNS, [Piece("s_1", ("1",)), Piece("s_2", ("2",))])
    tree = parsed(live)
    branches = list(tree.find_all(exp.Select))
    assert len(branches) == 2
    for branch in branches:
        assert columns_of(branch) == [*COLUMNS, "_live"]
        # A condition in a branch would keep the planner from pulling it up.
        assert branch.args.get("where") is None
    [select] = parsed(clean).find_all(exp.Select)
    assert columns_of(select) == list(COLUMNS)


def test_thousands_of_hidden_partitions_are_one_constant() -> None:
    live, _ = segment_views("m__1", COLUMNS, [Piece("s_1", DAYS[:10], DAYS[10:])])
    assert sum(1 for _ in parsed(live).find_all(exp.Literal)) == 1
    assert live.count("2013-") == 2990


def test_only_segments_that_hold_what_is_asked_for_are_read() -> None:
    pieces = [
        Piece("s_1", DAYS[:5]),
        Piece("s_2", DAYS[5:10], (DAYS[0],)),
        Piece("s_3", DAYS[10:11]),
    ]
    text = some_partitions(COLUMNS, pieces, [DAYS[3], DAYS[7]])
    assert "s_1" in text
    assert "s_2" in text
    assert "s_3" not in text
    assert DAYS[0] not in text
    nothing = some_partitions(COLUMNS, pieces, ["2020-01-01"])
    assert "s_1" in nothing
    assert "2020" not in nothing


@pytest.mark.parametrize("ending", ["", " -- the end", "\n-- the end", " /* the end */"])
def test_code_may_end_in_a_comment(ending: str) -> None:
    code = f"with x as (select 1 as a, 'p' as _partition) select * from x{ending}"
    for text in (temporary_view("v", code), without_partitions(code, ["q"])):
        assert isinstance(parsed(text), exp.Create | exp.Select)
    assert parsed(without_partitions(code, ["q"])).args["where"] is not None


def test_an_artifact_is_read_through_its_index_and_shows_its_window() -> None:
    text = some_artifacts("shop.orders", ["order_id", "_partition"], ["a_1", "a_2"])
    [select] = parsed(text).find_all(exp.Select)
    assert columns_of(select) == ["order_id", "_partition"]
    assert "'{a_1,a_2}'::varchar[]" in text


@given(st.text(alphabet='ab"._{}%', max_size=40))
def test_a_placeholder_is_replaced_where_it_stands_and_nothing_else_is(noise: str) -> None:
    placeholder = '"sluice"."model"."fct"'
    longer = '"sluice"."model"."fct_orders"'
    code = f"select '{noise}' from {placeholder} join {longer} using (a)"
    done = resolve(code, {placeholder: '"store"."fct__1"', longer: '"store"."fct_orders__2"'})
    assert done == (
        f'select \'{noise}\' from "store"."fct__1" join "store"."fct_orders__2" using (a)'
    )


@given(
    st.lists(st.sampled_from([*"{}%# -'\n", "raw", "end", "{% endraw %}", "{{ x }}", "{# y #}"]))
)
def test_jinja_leaves_sql_as_it_is(words: list[str]) -> None:
    text = "".join(words)
    rendered = Environment(autoescape=True, keep_trailing_newline=True).from_string(_raw(text))
    assert rendered.render() == text


def test_unquoted_names_of_a_contract_are_those_of_the_table() -> None:
    contract = (["Total", "int", False, []], ["Kept", "int", True, []], {"type": "check"})
    model = ModelNode("m", "model.m", "m.sql", "table", "versioned", (), (), contract=contract)
    assert model.contract_columns == ("total", "Kept")
    assert model.contract_types == ("int", "int")

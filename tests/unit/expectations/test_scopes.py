from pathlib import Path

import pytest

from expectations.document import SuiteError
from expectations.grouping import groups_of
from expectations.scope import AGGREGATES, EXTREME_TYPES, KEY_TYPES, ROW_TYPES, SHAPE_TYPES, Manner
from expectations.suite import SUITES, Suite, list_suites, load_suite

HEAD = "name: demo\nmeta: {owner: someone, runbook: docs/runbooks/failed-gate.md}\nexpectations:\n"
BETWEEN = "expect_column_values_to_be_between"
SQL = "unexpected_rows_expectation"


@pytest.fixture
def suite_of(tmp_path: Path):
    def build(*lines: str) -> Suite:
        text = HEAD
        for line in lines:
            kind, kwargs, *meta = (part.strip() for part in line.split(" | "))
            more = f", {meta[0]}" if meta else ""
            text += f"  - type: {kind}\n    kwargs: {kwargs}\n    severity: critical\n"
            text += f"    meta: {{reason: Because.{more}}}\n"
        (tmp_path / "demo.yml").write_text(text)
        return load_suite(tmp_path / "demo.yml")

    return build


@pytest.mark.parametrize(
    ("line", "manner"),
    [
        (f"{BETWEEN} | {{column: a, min_value: 0}}", Manner.PARTITIONS),
        (f"{BETWEEN} | {{column: a, min_value: 0}} | scope: all", Manner.WHOLE),
        (f"{BETWEEN} | {{column: a, min_value: 0, mostly: 0.9}}", Manner.WHOLE),
        (f"{BETWEEN} | {{column: a, max_value: {{$PARAMETER: as_of}}}}", Manner.WHOLE),
        (
            f"{BETWEEN} | {{column: a, max_value: {{$PARAMETER: as_of}}}} | scope: changed",
            Manner.PARTITIONS,
        ),
        ("expect_column_values_to_be_unique | {column: a}", Manner.KEYS),
        ("expect_column_values_to_be_unique | {column: a, mostly: 0.5}", Manner.WHOLE),
        ("expect_compound_columns_to_be_unique | {column_list: [a, b]}", Manner.KEYS),
        ("expect_column_max_to_be_between | {column: a, max_value: 3}", Manner.EXTREMES),
        (
            (
                "expect_column_max_to_be_between | {column: a, max_value: 3, row_condition: 'a > 1',"
                " condition_parser: great_expectations}"
            ),
            Manner.WHOLE,
        ),
        (
            "expect_column_min_to_be_between | {column: a, max_value: 3} | scope: changed",
            Manner.PARTITIONS,
        ),
        ("expect_table_row_count_to_equal | {value: 3}", Manner.WHOLE),
        ("expect_table_row_count_to_equal | {value: 3} | scope: changed", Manner.PARTITIONS),
        ("expect_column_median_to_be_between | {column: a, max_value: 3}", Manner.WHOLE),
        ("expect_something_unheard_of | {column: a}", Manner.WHOLE),
        (
            f"{SQL} | {{unexpected_rows_query: 'select a from {{batch}}'}} | columns: [a]",
            Manner.WHOLE,
        ),
        (
            (
                f"{SQL} | {{unexpected_rows_query: 'select a from {{batch}}'}}"
                " | columns: [a], scope: changed"
            ),
            Manner.PARTITIONS,
        ),
    ],
)
def test_an_expectation_looks_at_everything_unless_it_is_known_to_need_less(suite_of, line, manner):
    [item] = suite_of(line).expectations
    assert item.manner is manner


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("expect_column_values_to_be_unique | {column: a} | scope: changed", "over all partitions"),
        (f"{BETWEEN} | {{column: a, mostly: 0.9}} | scope: changed", "share of all rows"),
        (f"{BETWEEN} | {{column: a}} | scope: tonight", "one of changed, all"),
        (
            f"{BETWEEN} | {{column: a, max_value: {{$PARAMETER: last_day}}}} | scope: changed",
            "`last_day` speaks of all partitions",
        ),
        (
            "expect_column_median_to_be_between | {column: a, max_value: 3} | scope: changed",
            "cannot be asked of each partition",
        ),
        (
            "expect_table_row_count_to_equal | {value: 3, row_condition: 'a > 1'} | scope: changed",
            "a condition on rows",
        ),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused_at_its_line(suite_of, line, words):
    with pytest.raises(SuiteError) as caught:
        suite_of(line)
    [problem] = caught.value.problems
    assert problem.line == 7
    assert words in problem.message


def test_groups_have_their_rows_and_their_dependencies_in_common(suite_of):
    suite = suite_of(
        f"{BETWEEN} | {{column: a, min_value: 0}}",
        f"{BETWEEN} | {{column: b, min_value: 0}}",
        "expect_column_values_to_be_unique | {column: a}",
        "expect_column_max_to_be_between | {column: a, max_value: {$PARAMETER: as_of}}",
        f"{SQL} | {{unexpected_rows_query: 'select a from {{batch}}'}}"
        " | columns: [a], reads: [units], scope: changed",
    )
    groups = groups_of(suite, partitioned=True)
    assert [(g.manner, g.columns, sorted(g.reads), len(g.items)) for g in groups] == [
        (Manner.PARTITIONS, (), [], 2),
        (Manner.KEYS, ("a",), [], 1),
        (Manner.EXTREMES, ("a",), [], 1),
        (Manner.PARTITIONS, (), ["units"], 1),
    ]
    assert {g.manner for g in groups_of(suite, partitioned=False)} == {Manner.WHOLE}


def test_every_kind_that_is_known_is_one_of_great_expectations_own():
    from expectations.session import load_great_expectations

    load_great_expectations()
    from great_expectations.expectations.registry import list_registered_expectation_implementations

    known = {*ROW_TYPES, *KEY_TYPES, *EXTREME_TYPES, *AGGREGATES, *SHAPE_TYPES}
    assert known <= set(list_registered_expectation_implementations())


def test_no_suite_of_a_fact_leaves_open_how_much_it_looks_at():
    for path in list_suites(SUITES / "marts"):
        if path.stem.startswith(("fct_", "agg_")):
            manners = {item.manner for item in load_suite(path).expectations}
            assert Manner.WHOLE not in manners, path.stem

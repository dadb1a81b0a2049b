"""Expectations that are asked of each partition by itself, and SQL that reads its neighbours."""

from datetime import UTC, datetime

import psycopg
import pytest

from expectations.gate import evaluate_many
from expectations.subject import Subject
from expectations.verdict import ExpectationResult, Verdict

PARTITION = "_partition"
QUERY = "select * from demo.readings where _partition <> 'unseen'"
MORNING = datetime(2013, 1, 1, 6, tzinfo=UTC)
SQL = "unexpected_rows_expectation"


@pytest.fixture
def readings(connection: psycopg.Connection) -> psycopg.Connection:
    """Three rows in p1, one in p2, none in p3; and one that is never looked at."""
    connection.execute("""
        create table demo.readings (key bigint, speed double precision, seen_at timestamptz,
          _partition text);
        insert into demo.readings values
          (1, 10, '2013-01-01 01:00+00', 'p1'), (2, 20, '2013-01-01 02:00+00', 'p1'),
          (3, null, '2013-01-01 03:00+00', 'p1'), (4, 5, '2013-01-01 09:00+00', 'p2'),
          (5, 999, '2013-01-01 09:00+00', 'unseen');
        create table demo.other (key bigint);
        insert into demo.other values (1), (2), (3)
    """)
    return connection


def judge(url: str, suite, **partitions: dict[str, object]) -> Verdict:
    subject = Subject(
        suite,
        "demo",
        "readings",
        QUERY,
        {"as_of": MORNING, "input_rows_demo__r": 4},
        PARTITION,
        partitions={name: {"as_of": MORNING} | given for name, given in partitions.items()},
    )
    [verdict] = evaluate_many([subject], url)
    assert verdict.error is None, verdict.error
    return verdict


def only(verdict: Verdict) -> ExpectationResult:
    [result] = verdict.results
    return result


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("expect_table_row_count_to_equal | critical | {value: 3}", {"p2", "p3"}),
        ("expect_table_row_count_to_be_between | critical | {min_value: 1}", {"p3"}),
        ("expect_column_sum_to_be_between | critical | {column: speed, min_value: 5}", {"p3"}),
        (
            (
                "expect_column_sum_to_be_between | critical"
                " | {column: speed, min_value: 5, max_value: 30, strict_min: true, strict_max: true}"
            ),
            {"p1", "p2", "p3"},
        ),
        ("expect_column_mean_to_be_between | critical | {column: speed, max_value: 14.9}", {"p1"}),
        ("expect_column_mean_to_be_between | critical | {column: speed, max_value: 15}", set()),
        ("expect_column_max_to_be_between | critical | {column: speed, max_value: 5}", {"p1"}),
        (
            (
                "expect_column_max_to_be_between | critical"
                " | {column: seen_at, max_value: {$PARAMETER: as_of}}"
            ),
            {"p2"},
        ),
        (
            (
                "expect_column_min_to_be_between | critical"
                " | {column: seen_at, min_value: {$PARAMETER: 'as_of - timedelta(hours=4)'}}"
            ),
            {"p1"},
        ),
    ],
)
def test_each_partition_has_a_number_of_its_own(readings, database, suite_of, line, broken):
    """One without rows has the count and the sum 0, and no mean, least or greatest value."""
    suite = suite_of(f"{line} | scope: changed")
    result = only(judge(database.url, suite, p1={}, p2={}, p3={}))
    assert set(result.partitions or {}) == broken
    assert result.success is not bool(broken)
    assert result.unexpected_count == len(broken)


def test_each_partition_is_compared_with_its_own_input(readings, database, suite_of):
    suite = suite_of(
        "expect_table_row_count_to_equal | critical | {value: {$PARAMETER: input_rows_demo__r}}"
        " | scope: changed"
    )
    good = {"p1": {"input_rows_demo__r": 3}, "p2": {"input_rows_demo__r": 1}}
    result = only(judge(database.url, suite, **good))
    assert (result.success, result.bounds) == (True, {"value": "input_rows_demo__r"})
    result = only(judge(database.url, suite, **(good | {"p2": {"input_rows_demo__r": 2}})))
    assert (result.observed, result.bounds, result.partitions) == (1, {"value": 2}, {"p2": 1})


def test_sql_reads_the_neighbours_that_it_is_given(readings, database, suite_of):
    suite = suite_of(
        f"{SQL} | critical | {{unexpected_rows_query: 'select _partition, key from {{batch}}"
        " where key not in (select n.key from neighbour as n)'} | columns: [key]"
    )
    neighbours = {"neighbour": "select * from demo.other where 'a{b}' = 'a{b}'"}
    subject = Subject(suite, "demo", "readings", QUERY, {}, PARTITION, neighbours)
    [verdict] = evaluate_many([subject], database.url)
    assert only(verdict).partitions == {"p2": 1}


def test_sql_that_joins_names_its_partitions_too(readings, database, suite_of):
    suite = suite_of(
        f"{SQL} | critical | {{unexpected_rows_query: 'select r._partition from {{batch}} as r"
        " left join neighbour as n on n.key = r.key where n.key is null'} | columns: [key]"
    )
    neighbours = {"neighbour": "select * from demo.other"}
    subject = Subject(suite, "demo", "readings", QUERY, {}, PARTITION, neighbours)
    [verdict] = evaluate_many([subject], database.url)
    assert verdict.error is None, verdict.error
    assert only(verdict).partitions == {"p2": 1}


def test_a_neighbour_that_was_not_declared_is_an_error_and_no_failure(readings, database, suite_of):
    suite = suite_of(
        f"{SQL} | critical | {{unexpected_rows_query: 'select key from {{batch}} where key in"
        " (select s.key from secret as s)'} | columns: [key]"
    )
    neighbours = {"neighbour": "select * from demo.other"}
    subject = Subject(suite, "demo", "readings", QUERY, {}, PARTITION, neighbours)
    [verdict] = evaluate_many([subject], database.url)
    assert verdict.error is not None
    assert (verdict.error.code, verdict.error.transient) == ("42P01", False)


def test_a_distribution_can_still_be_tested(readings, database, suite_of):
    """The libraries that this needs are loaded when it is evaluated."""
    suite = suite_of(
        "expect_column_kl_divergence_to_be_less_than | warning | {column: _partition, threshold: 5,"
        " partition_object: {values: [p1, p2], weights: [0.75, 0.25]}}"
    )
    verdict = judge(database.url, suite)
    assert only(verdict).success

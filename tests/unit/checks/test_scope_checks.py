"""Rules that cost more every night, and rules that depend on more than they say, are found."""

from pathlib import Path

import pytest

from orchestration.checks.declared import DeclaredPipeline, read_pipelines
from orchestration.checks.finding import Finding, Severity
from orchestration.checks.scopes import PartitionedModel, check_suite_scopes

PROJECT = Path(__file__).parents[3]
MODELS = {"fct_flights": PartitionedModel("fct_flights", frozenset({"flight_key"}))}


def sql(condition: str, meta: str) -> str:
    query = f"select a from {{batch}} where {condition}"
    return (
        f"type: unexpected_rows_expectation\n    kwargs: {{unexpected_rows_query: '{query}'}}\n"
        f"    meta: {{reason: R., {meta}}}"
    )


@pytest.fixture
def declared() -> list[DeclaredPipeline]:
    found, problems = read_pipelines(PROJECT / "orchestration" / "pipelines", PROJECT)
    assert problems == []
    return found


def check(declared: list[DeclaredPipeline], folder: Path, expectation: str) -> list[Finding]:
    (folder / "marts").mkdir()
    (folder / "marts" / "fct_flights.yml").write_text(
        "name: fct_flights\nmeta: {owner: someone, runbook: docs/runbooks/failed-gate.md}\n"
        f"expectations:\n  - {expectation}\n    severity: critical\n"
    )
    return check_suite_scopes(declared, folder, MODELS)


@pytest.mark.parametrize(
    ("expectation", "severity", "words"),
    [
        (
            "type: expect_column_mean_to_be_between\n    kwargs: {column: a}\n    meta: {reason: R.}",
            Severity.WARNING,
            "reads all of fct_flights",
        ),
        (
            "type: expect_column_values_to_be_unique\n    kwargs: {column: a}\n    meta: {reason: R.}",
            Severity.WARNING,
            "no index of fct_flights begins with a",
        ),
        (
            sql("b > now()", "columns: [a], scope: changed"),
            Severity.ERROR,
            "depends on now",
        ),
        (
            sql("b in (select c from dim_plane)", "columns: [a], scope: changed"),
            Severity.ERROR,
            "depends on dim_plane",
        ),
        (
            sql(
                "b in (select c from live.flights__planes)",
                "columns: [a], reads: [dim_plane], scope: changed",
            ),
            Severity.ERROR,
            "depends on live.flights__planes",
        ),
    ],
)
def test_a_costly_or_secretive_expectation_is_found_at_its_line(
    declared: list[DeclaredPipeline],
    tmp_path: Path,
    expectation: str,
    severity: Severity,
    words: str,
) -> None:
    [found] = check(declared, tmp_path, expectation)
    assert (found.severity, words in found.message) == (severity, True), found
    assert found.where.endswith("fct_flights.yml:4")
    assert found.hint


@pytest.mark.parametrize(
    "expectation",
    [
        (
            "type: expect_column_mean_to_be_between\n    kwargs: {column: a}\n"
            "    meta: {reason: R., scope: all}"
        ),
        (
            "type: expect_column_values_to_be_unique\n    kwargs: {column: flight_key}\n"
            "    meta: {reason: R.}"
        ),
        sql("b in (select c from dim_plane)", "columns: [a], reads: [dim_plane], scope: changed"),
    ],
)
def test_what_says_what_it_means_is_left_alone(
    declared: list[DeclaredPipeline], tmp_path: Path, expectation: str
) -> None:
    assert check(declared, tmp_path, expectation) == []

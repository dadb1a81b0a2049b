"""Suites that cannot be evaluated, made to happen through the gate, and what they are taken for."""

from pathlib import Path

import pytest
from failure_words import in_words

from expectations.gate import evaluate_suite
from expectations.suite import Suite, load_suite
from expectations.verdict import Verdict, VerdictStatus
from orchestration.failures import classify_evaluation
from orchestration.warehouse.connections import Role, Warehouse

SUITE = """
name: demo
meta: {owner: someone, runbook: docs/runbooks/failed-gate.md}
expectations:
  - type: expect_column_values_to_not_be_null
    kwargs: {column: a}
    severity: critical
    meta: {reason: Because.}
"""
DIE = "select pg_terminate_backend(pg_backend_pid())::text as a, pg_sleep(2)::text as b"

# what is judged → kind, code, transient, exit code
CASES: list[tuple[str, str, str]] = [
    ("killed backend", DIE, "destination gate_unavailable transient 13"),
    ("slow", "select pg_sleep(5)::text as a", "destination gate_unavailable transient 13"),
    ("missing column", "select 1 as b", "configuration suite_error permanent 78"),
    ("missing relation", "select * from ops.nothing", "configuration suite_error permanent 78"),
    ("missing right", "select rolname as a from pg_authid", "configuration suite_error permanent 78"),
    ("no number", "select 'eve@example.org'::text::int as a", "configuration suite_error permanent 78"),
    ("writes", "select nextval('public.numbers') as a", "configuration suite_error permanent 78"),
]  # fmt: skip


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    file = tmp_path / "demo.yml"
    file.write_text(SUITE.lstrip())
    return load_suite(file)


def judge(suite: Suite, url: str, query: str) -> Verdict:
    return evaluate_suite(suite, url, schema="public", query=query, statement_timeout_s=0.5)


@pytest.mark.parametrize(("query", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_suite_that_cannot_be_evaluated_is_no_failure_of_the_data(
    warehouse: Warehouse, suite: Suite, query: str, expected: str
) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("create sequence public.numbers")
        owner.execute("grant usage on sequence public.numbers to sluice_gate")
    verdict = judge(suite, warehouse.url(Role.GATE), query)
    assert verdict.status is VerdictStatus.ERROR
    assert verdict.error is not None
    failure = classify_evaluation("demo", verdict.error)
    assert in_words(failure) == expected
    assert "eve@" not in failure.message


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("sluice_gate", "nobody"), "configuration gate_refused permanent 78"),
        (("/test_", "/nowhere_"), "configuration gate_refused permanent 78"),
        (("/tmp/", "/nowhere/"), "destination gate_unavailable transient 13"),
    ],
)
def test_a_gate_without_a_connection_is_told_apart(
    warehouse: Warehouse, suite: Suite, change: tuple[str, str], expected: str
) -> None:
    url = warehouse.url(Role.GATE).replace("%2F", "/").replace(*change)
    verdict = judge(suite, url, "select 1 as a")
    assert verdict.error is not None
    assert in_words(classify_evaluation("demo", verdict.error)) == expected

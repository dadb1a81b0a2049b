import json
import subprocess
import sys

import pytest

from expectations.failures import describe_database_error
from expectations.verdict import (
    EvaluationError,
    ExpectationResult,
    Severity,
    Verdict,
    VerdictStatus,
)

LOST = EvaluationError("connection", "lost", transient=True)
MISSING = EvaluationError("42P01", "missing", transient=False)


def result(severity: Severity, *, success: bool, **fields) -> ExpectationResult:
    return ExpectationResult(
        expectation_id=fields.pop("expectation_id", "0" * 12),
        type="expect_column_values_to_be_unique",
        columns=("key",),
        severity=severity,
        success=success,
        reason="One row per key.",
        owner="someone",
        runbook="docs/runbooks/failed-gate.md",
        **fields,
    )


@pytest.mark.parametrize(
    ("failing", "status"),
    [
        ([], VerdictStatus.PASSED),
        ([Severity.INFO], VerdictStatus.PASSED),
        ([Severity.INFO, Severity.WARNING], VerdictStatus.WARNED),
        ([Severity.WARNING, Severity.CRITICAL], VerdictStatus.FAILED),
    ],
)
def test_the_worst_failed_severity_decides(failing, status):
    results = [result(severity, success=False) for severity in failing]
    verdict = Verdict.conclude("s", [*results, result(Severity.CRITICAL, success=True)], 0.1)
    assert verdict.status is status
    assert verdict.statistics["passed"] == 1


def test_an_error_outweighs_failures_and_is_no_failure_itself():
    results = [
        result(Severity.CRITICAL, success=False),
        result(Severity.CRITICAL, success=False, error=MISSING),
        result(Severity.WARNING, success=False, error=LOST),
    ]
    verdict = Verdict.conclude("s", results, 0.1)
    assert verdict.status is VerdictStatus.ERROR
    assert verdict.transient
    assert verdict.statistics["failed_critical"] == 1
    assert verdict.statistics["errors"] == 2


def test_a_verdict_survives_json():
    results = [result(Severity.WARNING, success=False, partitions={"a/1@1": 2}, bounds={"m": [1]})]
    verdict = Verdict.conclude("s", results, 0.12345, LOST)
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict


def test_bad_partitions_are_named_and_what_names_none_is_told_apart():
    results = [
        result(Severity.CRITICAL, success=False, expectation_id="b", partitions={"p/2@1": 1}),
        result(Severity.CRITICAL, success=False, expectation_id="a", partitions={"p/2@1": 9}),
        result(Severity.CRITICAL, success=False, expectation_id="c"),
        result(Severity.WARNING, success=False, expectation_id="d", partitions={"p/3@1": 1}),
    ]
    verdict = Verdict.conclude("s", results, 0.1)
    assert verdict.failed_partitions() == {"p/2@1": ("a", "b")}
    assert [item.expectation_id for item in verdict.unattributed()] == ["c"]


class OperationalError(Exception):
    """Stands in for psycopg2's: the classification looks at names and SQLSTATE only."""

    pgcode: str | None = None


@pytest.mark.parametrize(
    ("code", "text", "transient"),
    [
        (None, "server closed the connection unexpectedly", True),
        (None, "connection refused", True),
        (None, 'FATAL: password authentication failed for user "x"', False),
        ("57P01", "terminating", True),
        ("57014", "statement timeout", True),
        ("53300", "too many connections", True),
        ("40P01", "deadlock", True),
        ("22P02", 'invalid input syntax: "jane.doe"', False),
    ],
)
def test_what_may_pass_is_transient_and_no_text_of_the_server_is_repeated(code, text, transient):
    error = OperationalError(text)
    error.pgcode = code
    described = describe_database_error(error)
    assert described.transient is transient
    assert text not in described.message
    assert "jane.doe" not in described.message


def test_importing_the_package_imports_no_great_expectations():
    program = (
        "import sys, expectations.gate, expectations.check, expectations.suite\n"
        "heavy = {'great_expectations', 'sqlalchemy', 'pandas', 'psycopg2'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", program], check=True)

"""Everything a report says of one run, read from rows; its cost depends on the run, not on history.

Reading only. No payload and no row of the data is read: quarantined records appear as rule, field,
reason and source reference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from orchestration.model import Run
from orchestration.runs.diagnosis import diagnose
from orchestration.sql.queries import query
from orchestration.sql.rows import rows_of

TREND_RUNS = 12
_RANKS = ("error", "failed", "waived", "warning", "info", "passed")

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Expectation:
    """One expectation of a suite on this run, and how it came out before, the oldest first.

    `trend` has the unexpected count of each earlier verdict and this one; None where it was not
    evaluated or does not count rows.
    """

    result: Row
    trend: tuple[float | None, ...] = ()

    @property
    def status(self) -> str:
        """passed, failed, waived, or the severity of what did not hold: warning or info."""
        if self.result.get("error"):
            return "error"
        if self.result.get("waived"):
            return "waived"
        if self.result["success"]:
            return "passed"
        severity = str(self.result["severity"])
        return "failed" if severity == "critical" else severity

    @property
    def rank(self) -> int:
        """The worse, the lower."""
        return _RANKS.index(self.status)


@dataclass(frozen=True)
class SuiteVerdict:
    """A suite's verdict on one subject: on these partitions of it, or on everything.

    `unchanged` counts what was not asked again, because nothing has changed since it was accepted.
    `policy` is what a failure meant.
    """

    stage: str
    subject: str
    suite: str
    verdict: str
    results: tuple[Expectation, ...]
    evaluated_at: Any = None
    partitions: tuple[str, ...] | None = None
    unchanged: int = 0
    policy: str | None = None


@dataclass(frozen=True)
class RunReport:
    """All there is to show. Every list is in the order in which it is read."""

    run: Run
    diagnosis: Row
    stages: Sequence[Row]
    partitions: Sequence[Row]
    verdicts: Sequence[SuiteVerdict]
    changes: Sequence[Row] = ()
    quarantine: Sequence[Row] = ()
    rules: Sequence[Row] = ()
    lineage: Sequence[Row] = ()
    decisions: Sequence[Row] = ()
    waivers: Sequence[Row] = ()
    previous_version: str | None = None


def read_report(connection: psycopg.Connection, run: Run) -> RunReport:
    """The facts of a run that ended, or of one that goes on as far as it got."""
    previous = _previous_version(connection, run)
    values = {
        "run_id": run.run_id,
        "version_id": run.version_id,
        "previous": previous,
        "pipeline": run.pipeline,
    }
    return RunReport(
        run=run,
        diagnosis=diagnose(connection, run),
        stages=rows_of(connection, "report_stages", values),
        partitions=rows_of(connection, "report_partitions", values),
        verdicts=_verdicts(connection, values),
        changes=rows_of(connection, "report_changes", values) if run.version_id else (),
        quarantine=rows_of(connection, "report_quarantine", values),
        rules=rows_of(connection, "report_rules", values),
        lineage=rows_of(connection, "report_lineage", values) if run.version_id else (),
        decisions=rows_of(connection, "report_decisions", values),
        waivers=rows_of(connection, "report_waivers", values) if run.version_id else (),
        previous_version=previous,
    )


def _previous_version(connection: psycopg.Connection, run: Run) -> str | None:
    """What readers saw before this run, or see instead of what it built."""
    row = connection.execute(
        query("report_previous_version"),
        {"run_id": run.run_id, "pipeline": run.pipeline, "version_id": run.version_id},
    ).fetchone()
    return str(row[0]) if row and row[0] else None


def _verdicts(connection: psycopg.Connection, values: Row) -> list[SuiteVerdict]:
    found = []
    for row in rows_of(connection, "report_verdicts", values):
        earlier = rows_of(
            connection,
            "report_trend",
            {**values, "suite": row["suite"], "verdict_id": row["verdict_id"], "runs": TREND_RUNS},
        )
        results = [
            Expectation(item, _trend(item, [each["results"] for each in reversed(earlier)]))
            for item in row["results"]["results"]
        ]
        found.append(
            SuiteVerdict(
                row["stage"],
                row["subject"],
                row["suite"],
                row["verdict"],
                tuple(results),
                row["evaluated_at"],
                tuple(row["partitions"]) if row["partitions"] is not None else None,
                row["results"]["statistics"].get("unchanged", 0),
                row["results"].get("policy"),
            )
        )
    return found


def _trend(result: Row, earlier: Sequence[Row]) -> tuple[float | None, ...]:
    """The counts of the same expectation in earlier verdicts, then its own."""
    name = _identity(result)
    counts = [
        next((_count(item) for item in verdict["results"] if _identity(item) == name), None)
        for verdict in earlier
    ]
    return (*counts, _count(result))


def _identity(result: Row) -> Any:
    return result.get("expectation_id") or result["type"]


def _count(result: Row) -> float | None:
    count = result.get("unexpected_count")
    if count is None and isinstance(result.get("observed"), int | float):
        return float(result["observed"])
    return None if count is None else float(count)

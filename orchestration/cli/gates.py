"""`sluice gates show`: every suite's verdict on a run, and which expectations failed."""

from collections.abc import Iterable
from typing import Any

from orchestration.cli.output import print_json, print_rows, shown
from orchestration.cli.reading import reading
from orchestration.runs.state import resolve_run
from orchestration.sql.rows import fetch

_SHOWN_PARTITIONS = 3


def show(prefix: str | None, *, as_json: bool) -> None:
    with reading() as connection:
        run = resolve_run(connection, prefix)
        rows = fetch(
            connection,
            # The last word on each subject; a run that reused a gate's verdict shows that one.
            "select stage, subject, suite, verdict, results, duration_s, evaluated_at, run_id, "
            "partitions from ("
            "select distinct on (stage, subject, suite) * from ops.verdicts where run_id = %s "
            "or (stage = 'gate' and subject = %s and run_id = ("
            "select c.run_id from ops.run_stages s join ops.checkpoints c using (idempotency_key) "
            "where s.run_id = %s and s.stage = 'gate')) "
            "order by stage, subject, suite, verdict_id desc) v order by verdict_id",
            [run.run_id, run.version_id, run.run_id],
        )
    if as_json:
        print_json({"run_id": run.run_id, "verdicts": rows})
        return
    print_rows(
        f"verdicts of {run.run_id}",
        ["stage", "suite", "verdict", "policy", "expectations", "failed", "looked_at"],
        [
            row
            | {
                "policy": row["results"].get("policy"),
                "expectations": row["results"]["statistics"]["expectations"],
                "failed": len(failed_expectations(row["results"])),
                "looked_at": "partitions of this run"
                if row["stage"] == "validate"
                else _looked_at(row["results"]),
            }
            for row in rows
        ],
        "no suite was evaluated",
    )
    print_failed([(str(row["suite"]), row["results"]) for row in rows])


def print_failed(verdicts: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """What did not hold, of (suite, verdict as it is stored); nothing when everything did."""
    failed = [
        {"suite": suite} | item
        for suite, verdict in verdicts
        for item in failed_expectations(verdict)
    ]
    if failed:
        print_rows(
            "expectations that did not hold",
            [
                "suite",
                "type",
                "columns",
                "severity",
                "observed",
                "expected",
                "unexpected_count",
                "partitions",
                "owner",
                "reason",
            ],
            [
                item
                | {
                    "columns": ", ".join(item["columns"]),
                    "expected": _expected(item),
                    "partitions": _first(list(item.get("partitions") or {})),
                }
                for item in failed
            ],
            "",
        )


def _looked_at(verdict: dict[str, Any]) -> str:
    """Which partitions a verdict is about; verdicts of an earlier form are about everything."""
    partitions = verdict.get("partitions")
    if partitions is None:
        return "everything"
    if not verdict["results"]:
        return "nothing, it is unchanged"
    return _first(partitions) or "what is not in partitions"


def _expected(expectation: dict[str, Any]) -> str | None:
    """The bounds of an expectation, `min_value 1, max_value 25`; nothing for one without any."""
    bounds = expectation.get("bounds") or {}
    return ", ".join(f"{name} {shown(value)}" for name, value in bounds.items()) or None


def _first(partitions: list[str]) -> str | None:
    """The first partitions, and how many more there are."""
    count = len(partitions) - _SHOWN_PARTITIONS
    more = f" and {count} more" if count > 0 else ""
    return ", ".join(partitions[:_SHOWN_PARTITIONS]) + more or None


def failed_expectations(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a stored verdict that the data did not fulfil."""
    return [item for item in verdict["results"] if not item["success"]]


def remark(expectation: dict[str, Any]) -> str:
    """What a failed expectation says, in a few words: `why (how many)`."""
    what = expectation["type"] if expectation.get("source") == "dbt" else expectation["reason"]
    count = expectation.get("unexpected_count")
    return f"{what} ({count})" if count else str(what)

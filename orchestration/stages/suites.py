"""Suites as a run sees them: which files, what they mean, and the values they ask for."""

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from expectations.parameters import Value
from expectations.suite import Suite, load_suite, suite_hash
from expectations.verdict import Verdict
from ingestion.partitions import SNAPSHOT
from orchestration.errors import ConfigurationError
from orchestration.failures import classify_evaluation
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.fence import Lease, assert_fence
from orchestration.warehouse.names import staging_table


def suite_file(suites_dir: Path, name: str) -> Path:
    """`marts/fct_flights` → its file. Raises `ConfigurationError` when there is none."""
    file = suites_dir / f"{name}.yml"
    if not file.is_file():
        raise ConfigurationError(
            f"the suite {name!r} does not exist; write {file.name} below "
            "expectations/suites, or correct the name in the pipeline file",
            code="unknown_suite",
        )
    return file


def read_suite(suites_dir: Path, name: str) -> Suite:
    """The loaded suite. Raises `ConfigurationError` with every problem and its line."""
    file = suite_file(suites_dir, name)
    try:
        return load_suite(file)
    except ValueError as error:
        raise ConfigurationError(str(error), code="suite_file") from error


def meaning(suites_dir: Path, names: Iterable[str]) -> dict[str, str]:
    """suite → hash of what it means; formatting and comments do not count."""
    return {name: suite_hash(suite_file(suites_dir, name)) for name in sorted(set(names))}


def suite_parameters(as_of: datetime, artifacts: Iterable[Artifact]) -> dict[str, Value]:
    """The run-time parameters of suites for rows that come from these artifacts."""
    found = list(artifacts)
    values: dict[str, Value] = {"as_of": as_of}
    days = sorted(item.window_name for item in found if item.window_name != SNAPSHOT)
    if days:
        values["first_day"], values["last_day"] = (
            date.fromisoformat(days[0]),
            date.fromisoformat(days[-1]),
        )
    for item in found:
        table = staging_table(item.resource)
        for name, count in (("input_rows_", item.loaded or 0), ("input_partitions_", 1)):
            before = values.get(name + table, 0)
            assert isinstance(before, int)  # noqa: S101 - tells the type checker what the name says
            values[name + table] = before + count
    return values


def record_verdicts(
    connection: psycopg.Connection,
    lease: Lease,
    verdicts: Iterable[tuple[str, str, str, Mapping[str, Any]]],
    *,
    pipeline: str,
    run_id: str,
    stage: str,
) -> dict[str, int]:
    """Keeps (subject, suite, suite hash, verdict as JSON) rows, in the caller's transaction.

    Returns suite → id of the row.
    """
    assert_fence(connection, lease)
    ids: dict[str, int] = {}
    for subject, suite, hashed, verdict in verdicts:
        row = connection.execute(
            "insert into ops.verdicts (pipeline, run_id, stage, subject, suite, suite_hash, verdict, "
            "results, duration_s, partitions) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
            "returning verdict_id",
            [
                *(pipeline, run_id, stage, subject, suite, hashed, verdict["status"]),
                *(Jsonb(verdict), verdict.get("duration_s"), verdict.get("partitions")),
            ],
        ).fetchone()
        if row is not None:
            ids[suite] = int(row[0])
    return ids


def refuse_errors(verdicts: Mapping[str, Verdict]) -> None:
    """Raises for the first suite that could not be evaluated; transient errors come first."""
    broken = [(name, item.error) for name, item in verdicts.items() if item.error is not None]
    for name, error in sorted(broken, key=lambda item: not (item[1] and item[1].transient)):
        if error is not None:
            raise classify_evaluation(name, error)

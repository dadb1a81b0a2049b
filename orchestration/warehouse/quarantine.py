"""What a load or a judgement does to the quarantine: retries that it makes true, corrections that it meets.

Through functions of the database, which sees to it that every count agrees when the load is adopted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from ingestion.corrections import Outcome
from ingestion.partitions import Partition
from ingestion.retries import Base, Judged, KeptRecord
from orchestration.errors import ConfigurationError
from orchestration.sql.queries import query

_COUNTS_NO_MORE = "SL012"


def kept_record(row: dict[str, Any]) -> KeptRecord:
    """The record as ingestion judges it, from a row that names its columns so."""
    names = ("record_id", "source_ref", "rule", "field", "error", "payload", "correction")
    return KeptRecord(
        **{name: row[name] for name in names},
        altered=tuple(row["altered"]),
        is_of_origin=row["is_of_origin"],
    )


def result_of(item: Judged, contract_version: str) -> dict[str, Any]:
    """What was found about a record, as the functions of the database take it."""
    problem = item.problem
    return {
        "record_id": item.kept.record_id,
        "loaded": problem is None,
        "rule": problem and problem.rule,
        "field": problem and problem.field,
        "error": problem and problem.error,
        "corrected": item.kept.correction is not None,
        "contract_version": contract_version,
    }


@dataclass(frozen=True)
class RetryPlan:
    """What a revision that a reviewer asked for consists of; `status` is that of the retry.

    `base` is None where retention dropped all that it could take rows over from.
    """

    retry_id: int
    status: str
    base: Base | None
    records: tuple[KeptRecord, ...]


def read_retries(
    connection: psycopg.Connection, pipeline: str, partitions: Iterable[str]
) -> dict[str, RetryPlan]:
    """The plans of those of the partitions that are retries; the extractor's connection."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query("quarantine_retries"), [pipeline, list(partitions)]).fetchall()
        return {row["partition"]: _plan(cursor, row) for row in rows}


def _plan(cursor: psycopg.Cursor[dict[str, Any]], row: dict[str, Any]) -> RetryPlan:
    records = cursor.execute(query("quarantine_retry_records"), [row["retry_id"]]).fetchall()
    base = None
    if row["artifact_id"] is not None:
        base = Base(
            artifact_id=row["artifact_id"],
            fetched=row["fetched"],
            loaded=row["loaded"],
            schema_version=row["schema_version"],
            unexpected_fields=tuple(row["unexpected_fields"]),
            fetched_at=row["fetched_at"],
        )
    return RetryPlan(
        row["retry_id"], row["status"], base, tuple(kept_record(item) for item in records)
    )


def settle_retry(
    connection: psycopg.Connection,
    plan: RetryPlan,
    artifact_id: str,
    judged: Sequence[Judged],
    contract_version: str,
) -> int:
    """What became of each record, inside the adoption; returns how many records stay out.

    Raises `ConfigurationError` when another retry or another fetch took this one's place.
    """
    results = [result_of(item, contract_version) for item in judged]
    base_id = plan.base and plan.base.artifact_id
    try:
        row = connection.execute(
            "select quarantine.settle_retry(%s, %s, %s, %s)",
            [plan.retry_id, artifact_id, base_id, Jsonb(results)],
        ).fetchone()
    except psycopg.Error as error:
        if error.sqlstate == _COUNTS_NO_MORE:
            raise retry_replaced() from None
        raise
    return int(row[0]) if row else 0


def retry_replaced() -> ConfigurationError:
    """The failure of a retry that came too late."""
    return ConfigurationError(
        "this retry counts no more: a later retry has its records too, or the source was asked again "
        "meanwhile; see where the records stand with: sluice quarantine list",
        code="retry_replaced",
    )


def corrections_in_force(
    connection: psycopg.Connection, pipeline: str, partitions: Sequence[Partition]
) -> dict[Partition, list[KeptRecord]]:
    """The corrections by hand that each of these partitions, newly fetched, meets."""
    found: dict[Partition, list[KeptRecord]] = {}
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(
            query("quarantine_corrections"),
            {
                "pipeline": pipeline,
                "resources": [item.resource for item in partitions],
                "windows": [item.window for item in partitions],
                "revisions": [item.revision for item in partitions],
            },
        ).fetchall()
    for row in rows:
        partition = Partition(row["resource"], row["window_name"], row["revision"])
        found.setdefault(partition, []).append(kept_record(row))
    return found


def settle_corrections(
    connection: psycopg.Connection, artifact_id: str, outcomes: Sequence[Outcome]
) -> None:
    """Writes down what became of corrections, inside the adoption of a fetched artifact."""
    connection.execute(
        "select quarantine.settle_corrections(%s, %s)",
        [
            artifact_id,
            Jsonb(
                [
                    {"record_id": item.record_id, "how": item.fate, "detail": item.message}
                    for item in outcomes
                ]
            ),
        ],
    )


@dataclass(frozen=True)
class CorrectionNews:
    """What a run did to a correction by hand, for people and machines."""

    record_id: int
    event: str
    detail: str


def news_of_run(connection: psycopg.Connection, run_id: str) -> list[CorrectionNews]:
    """What became of corrections by hand in what this run fetched."""
    with connection.cursor(row_factory=class_row(CorrectionNews)) as cursor:
        return cursor.execute(
            "select record_id, event, detail from quarantine.decisions where run_id = %s "
            "and event in ('applied_again', 'superseded') order by decision_id",
            [run_id],
        ).fetchall()


def released_rules(connection: psycopg.Connection, artifact_id: str) -> dict[str, str]:
    """rule → who released the partition from it and why."""
    rows = connection.execute(
        "select rule, 'released by ' || decided_by || ': ' || decision_reason "
        "from quarantine.partitions where artifact_id = %s and decision = 'released'",
        [artifact_id],
    ).fetchall()
    return dict(rows)


def kept_out_rules(
    connection: psycopg.Connection, artifact_id: str, gate_rules: str
) -> list[tuple[str, str, bool]]:
    """(rule, what a gate saw, whether it left the partition out) of what keeps it out after a gate.

    A reviewer who rejected it has decided; a gate that left it out has for as long as its rules,
    of which `gate_rules` is the digest, are the same.
    """
    return connection.execute(
        "select rule, error || coalesce(' (rejected by ' || decided_by || ': ' || decision_reason "
        "|| ')', ''), decision = 'held' from quarantine.partitions where artifact_id = %s "
        "and (decision = 'discarded' or decision = 'held' and rules = %s) order by partition_id",
        [artifact_id, gate_rules],
    ).fetchall()


def discarded_records(connection: psycopg.Connection, artifact_id: str) -> str | None:
    """The records of a retry that were discarded since, which it must not bring into use."""
    row = connection.execute("select quarantine.discarded_in(%s)", [artifact_id]).fetchone()
    return row[0] if row else None


def judged_as_of(
    connection: psycopg.Connection, artifact_ids: Iterable[str]
) -> dict[str, datetime]:
    """For those that are retries: the moment that their origin was judged for. A retry asks no
    source, and makes nothing older than it was."""
    rows = connection.execute(
        "select a.artifact_id, r.as_of from ops.artifacts a join ops.artifacts o "
        "on o.artifact_id = a.origin_id join ops.runs r on r.run_id = o.run_id "
        "where a.artifact_id = any(%s)",
        [list(artifact_ids)],
    ).fetchall()
    return dict(rows)

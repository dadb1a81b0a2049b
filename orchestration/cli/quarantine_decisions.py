"""`sluice quarantine retry|discard|release`: decisions are the reviewer's, loads are a run's."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from ingestion.partitions import SNAPSHOT, Partition
from orchestration.cli.output import print_facts, print_json, print_rows, say
from orchestration.cli.quarantine_payload import read_corrections
from orchestration.cli.quarantine_show import in_use, parse_entry
from orchestration.cli.reading import reading
from orchestration.cli.run import drive, print_summary
from orchestration.cli.session import (
    deciding,
    prepare_logs,
    read_settings,
    start_services,
)
from orchestration.errors import EXIT_CODES, ConfigurationError, FailureKind
from orchestration.faultpoints import FaultPoint, reach
from orchestration.sql.rows import fetch, rows_of
from orchestration.triggers.retry import request_retries, retry_request
from orchestration.warehouse.connections import Role
from orchestration.warehouse.decisions import discard_records, release_partition


def retry(
    entries: Sequence[str], *, payload: Path | None, publish: bool, reason: str, as_json: bool
) -> None:
    numbers = [_record(entry) for entry in dict.fromkeys(entries)]
    corrections = read_corrections(payload, numbers)
    settings = read_settings()
    prepare_logs(settings)
    warehouse = start_services(settings, say)
    with deciding(settings) as connection:
        requested = request_retries(
            connection, numbers, corrections, environ=os.environ, reason=reason
        )
    summaries = [
        drive(settings, warehouse, retry_request(pipeline, partitions, publish=publish))
        for pipeline, partitions in sorted(requested.partitions.items())
    ]
    with warehouse.connect(Role.REVIEWER, autocommit=True) as connection:
        results = rows_of(connection, "quarantine_retry_results", [numbers])
    advice = _retry_advice(entries, results, publish=publish)
    if as_json:
        runs = [summary.as_json() for summary in summaries]
        print_json({"records": results, "runs": runs, "next": advice})
    else:
        for summary in summaries:
            print_summary(summary)
        print_rows("records", ["id", "result", "partition", "detail"], results, "nothing")
        print_facts({"next": advice})
    codes = [summary.exit_code for summary in summaries if summary.exit_code]
    if any(row["result"] != "loaded" for row in results):
        codes.append(EXIT_CODES[FailureKind.QUALITY])
    raise SystemExit(codes[0] if codes else 0)


def discard(entries: Sequence[str], *, reason: str, as_json: bool) -> None:
    numbers = [_record(entry) for entry in dict.fromkeys(entries)]
    require_reason(reason)
    settings = read_settings()
    with deciding(settings) as connection:
        decided = discard_records(connection, numbers, reason)
        reach(FaultPoint.QUARANTINE_AFTER_DECISION)
    rows = [
        {
            "id": f"record-{number}",
            "decision": "discarded",
            "remark": "now" if is_new else "it was discarded before",
        }
        for number, is_new in sorted(decided.items())
    ]
    if as_json:
        print_json({"records": rows})
    else:
        print_rows("discarded", ["id", "decision", "remark"], rows, "nothing")


def release(name: str, *, reason: str, pipeline: str | None, as_json: bool) -> None:
    require_reason(reason)
    with reading(Role.REVIEWER) as connection:
        row = _find_partition(connection, name, pipeline)
        before = in_use(connection, row)
    settings = read_settings()
    with deciding(settings) as connection:
        is_new = release_partition(connection, row["artifact_id"], reason)
        reach(FaultPoint.QUARANTINE_AFTER_DECISION)
        rules = fetch(
            connection,
            "select rule, error from quarantine.partitions where artifact_id = %s "
            "and decision = 'released' order by partition_id",
            [row["artifact_id"]],
        )
    answer = {
        "partition": row["partition"],
        "acceptance": "accepted",
        "remark": "released now" if is_new else "it was accepted already",
        "released_from": rules,
        "in_use_until_now": before,
        "in_use_from_the_next_run": {
            name: row[name] for name in ("partition", "fetched", "loaded", "quarantined")
        },
        "next": _run_again(row),
    }
    if as_json:
        print_json(answer)
        return
    print_facts({name: value for name, value in answer.items() if name != "released_from"})
    print_rows("released from", ["rule", "error"], rules, "no rule kept it out")


def _record(entry: str) -> int:
    kind, number = parse_entry(entry)
    if kind != "record":
        raise ConfigurationError(
            f"{entry} is a partition; accept it as it is with: sluice quarantine release {entry}, or "
            "decide about its records",
            code="bad_entry",
        )
    return number


def require_reason(reason: str) -> None:
    if not reason.strip():
        raise ConfigurationError(
            "a decision needs a reason; say why with --reason", code="no_reason"
        )


def _find_partition(
    connection: psycopg.Connection, name: str, pipeline: str | None
) -> dict[str, Any]:
    if name.startswith("partition-"):
        _, number = parse_entry(name)
        found = rows_of(connection, "quarantine_show_partition", [number])
    else:
        found = fetch(
            connection,
            "select artifact_id, pipeline, resource, window_name, partition, fetched, loaded, "
            "quarantined, run_id from ops.artifacts where partition = %s and state = 'adopted' "
            "and (%s::text is null or pipeline = %s)",
            [name, pipeline, pipeline],
        )
    if len(found) != 1:
        raise ConfigurationError(
            f"{name} is in several pipelines; say which with --pipeline"
            if found
            else f"there is no partition {name!r}; see: sluice quarantine list --decision held",
            code="unknown_partition",
        )
    return found[0]


def _run_again(row: dict[str, Any]) -> str:
    window = Partition.parse(row["partition"]).window
    if window == SNAPSHOT:
        return f"sluice replay {row['run_id']} --stage validate"
    return f"sluice run --pipeline {row['pipeline']} --partitions {window}"


def _retry_advice(
    entries: Sequence[str], results: Sequence[dict[str, Any]], *, publish: bool
) -> str:
    held = [row["id"] for row in results if row["result"] != "loaded"]
    if held:
        return f"sluice quarantine show {held[0]}"
    if publish:
        return "sluice quarantine list --decision held"
    return f"sluice quarantine retry {' '.join(dict.fromkeys(entries))} --publish"

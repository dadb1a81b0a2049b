"""Retrying quarantined records: what passes today's contract becomes a revision that a run loads.

The request is a row before anything is loaded, and the run that follows from it is the same however
often it is asked for, so that a retry that was cut off goes on and none is done twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from ingestion.checks import PartitionJudge
from ingestion.partitions import Partition
from ingestion.retries import Judged, correct_record, judge_kept, kept_judge
from ingestion.sources import get_resource
from orchestration.errors import ConfigurationError
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import digest
from orchestration.model import StageName
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.decisions import EntryRecord, keep_held, read_records, request_retry

Given = Mapping[str, Any]
Window = tuple[str, str, str]


@dataclass(frozen=True)
class Requested:
    """The revisions that have, or will have, what passed; by pipeline."""

    partitions: dict[str, list[Partition]]


def request_retries(
    connection: psycopg.Connection,
    record_ids: Sequence[int],
    corrections: Mapping[int, Given],
    *,
    environ: Mapping[str, str],
    reason: str,
) -> Requested:
    """Judges the records and writes the request down, all of it or nothing; the reviewer's connection.

    `corrections` are fields that a person gave, by record, as the source names them. A record that
    is loaded already is not asked for again. Raises `ConfigurationError` and
    `IngestionConfigurationError` when a record cannot be retried.
    """
    found = read_records(connection, record_ids)
    if missing := [number for number in record_ids if number not in found]:
        raise ConfigurationError(
            f"there is no record-{missing[0]}; see: sluice quarantine list", code="unknown_entry"
        )
    windows: dict[Window, list[EntryRecord]] = {}
    for entry in found.values():
        _require_retryable(entry)
        at = (entry.pipeline, entry.resource, entry.window_name)
        windows.setdefault(at, []).append(entry)
    requested: dict[str, list[Partition]] = {}
    with connection.transaction():
        for (pipeline, _, _), entries in sorted(windows.items()):
            partitions = _request_window(connection, entries, corrections, environ, reason)
            if partitions:
                requested.setdefault(pipeline, []).extend(partitions)
    reach(FaultPoint.QUARANTINE_AFTER_REQUEST)
    return Requested(requested)


def retry_request(pipeline: str, partitions: Sequence[Partition], *, publish: bool) -> RunRequest:
    """The run that loads and judges these revisions, and builds and publishes if asked to."""
    names = sorted(map(str, partitions))
    key = names[0] if len(names) == 1 else digest(names)[:16]
    return RunRequest(
        pipeline=pipeline,
        days=(),
        trigger_key=f"retry/{key}" + ("+publish" if publish else ""),
        revisions=sorted(partitions),
        publish=publish,
        stop_after=None if publish else StageName.VALIDATE,
    )


def _require_retryable(entry: EntryRecord) -> None:
    name = f"record-{entry.record_id}"
    if entry.decision not in ("held", "retried"):
        raise ConfigurationError(
            f"{name} was {entry.decision}, which stands for ever; if the source corrected it, fetch its "
            "partition again with --refresh",
            code="decision_refused",
        )
    if entry.later_fetched and not entry.is_in_force:
        raise ConfigurationError(
            f"{name} belongs to {entry.partition}, but {entry.later_fetched} was fetched since, and "
            f"counts; see what of it is held: sluice quarantine list --resource {entry.resource}",
            code="decision_refused",
        )


def _request_window(
    connection: psycopg.Connection,
    entries: Sequence[EntryRecord],
    corrections: Mapping[int, Given],
    environ: Mapping[str, str],
    reason: str,
) -> set[Partition]:
    first = entries[0]
    contract = get_resource(first.resource).contract
    judge = kept_judge(contract, Partition.parse(first.partition))
    partitions: set[Partition] = set()
    judged = []
    for entry in entries:
        given = corrections.get(entry.record_id)
        if given is None and entry.under_way is None and entry.retried_as is not None:
            partitions.add(Partition.parse(entry.retried_as))
        else:
            judged.append(_judge(judge, entry, given, environ))
    passed = [item.kept for item in judged if item.problem is None]
    failed = [item for item in judged if item.problem is not None]
    if failed:
        keep_held(connection, failed, contract.version, reason)
    if passed:
        retry, _ = request_retry(connection, passed, reason)
        partitions.add(Partition.parse(retry.partition))
    return partitions


def _judge(
    judge: PartitionJudge, entry: EntryRecord, given: Given | None, environ: Mapping[str, str]
) -> Judged:
    """By its fields; whether its key is taken only the accepted rows know, when it is loaded."""
    if given is None:
        # Without a new correction, a retry that was cut off goes on with the one it had.
        return judge_kept(judge, replace(entry.kept, correction=entry.correction_under_way))
    contract = get_resource(entry.resource).contract
    corrected = correct_record(contract, entry.kept, given, environ)
    return corrected if corrected.problem else judge_kept(judge, corrected.kept)

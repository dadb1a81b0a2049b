"""Quarantined records under today's contract, as they were sent or corrected by hand.

What passes becomes part of a new revision of its partition, beside the rows that were accepted
before; what does not pass keeps out, with the reason as it is now. Nothing is written but the spool.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from ingestion.artifacts import read_artifact_rows
from ingestion.checks import PartitionJudge
from ingestion.contracts import Contract
from ingestion.errors import IngestionConfigurationError, IngestionError
from ingestion.partitions import Partition
from ingestion.redaction import Record, RedactedBefore, Redactor, read_key
from ingestion.rejections import RejectedRecord, explain
from ingestion.resources import Resource
from ingestion.spool import Fetched, write_spooled

_BY_HAND = ";manual=record-"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRecord:
    """A record as the quarantine has it: `payload` and `correction` are redacted.

    `is_of_origin`: it was kept out of the very artifact whose rows are taken over, not of an
    earlier one. `altered` names what the payload does not hold as it was sent.
    """

    record_id: int
    source_ref: str
    rule: str
    field: str | None
    error: str
    payload: Any
    altered: tuple[str, ...] = ()
    correction: Record | None = None
    is_of_origin: bool = True

    @property
    def row_ref(self) -> str:
        """The source reference of its row: what was corrected by hand says so."""
        by_hand = "" if self.correction is None else f"{_BY_HAND}{self.record_id}"
        return self.source_ref + by_hand

    def is_in_row(self, row_ref: str) -> bool:
        """Whether this row is the record, as it was sent or corrected."""
        by_hand = row_ref.endswith(f"{_BY_HAND}{self.record_id}")
        return by_hand or (self.is_of_origin and row_ref == self.source_ref)


@dataclass(frozen=True, slots=True)
class Judged:
    """A kept record and what was found: a redacted record that may be loaded, or what is wrong."""

    kept: KeptRecord
    record: Record | None = None
    problem: RejectedRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The artifact whose rows are taken over; `fetched` counts what the source sent."""

    artifact_id: str
    fetched: int
    loaded: int
    schema_version: str
    unexpected_fields: tuple[str, ...]
    fetched_at: datetime


@dataclass(frozen=True, slots=True)
class Composed:
    """A spooled partition that was composed instead of fetched."""

    fetched: Fetched
    judged: tuple[Judged, ...]


def judge_kept(judge: PartitionJudge, kept: KeptRecord) -> Judged:
    """Judges one record; what is accepted claims its key. A payload that is not what was sent is
    not loaded."""
    if kept.correction is None and kept.altered:
        unchanged = RejectedRecord(kept.source_ref, kept.rule, kept.field, kept.error, kept.payload)
        return Judged(kept, problem=unchanged)
    wanted = kept.payload if kept.correction is None else kept.correction
    record = dict(wanted) if isinstance(wanted, dict) else wanted
    page = judge.judge([record], kept.row_ref)
    if page.rejected:
        return Judged(kept, problem=page.rejected[0])
    return Judged(kept, record=page.accepted[0])


def kept_judge(contract: Contract, partition: Partition) -> PartitionJudge:
    """A judge of records that were redacted before they were kept."""
    return PartitionJudge(contract, partition, RedactedBefore())


def correct_record(
    contract: Contract, kept: KeptRecord, given: Mapping[str, Any], environ: Mapping[str, str]
) -> Judged:
    """The kept record with the fields that a person gave, redacted; `problem` if that cannot be.

    Fields are named as the source names them; what is not given stays as it was sent. It is not
    judged yet. Raises `IngestionConfigurationError` for fields that the contract does not know.
    """
    names = [field.name for field in contract.fields]
    if unknown := sorted(set(given) - set(names)):
        shown = ", ".join(name for name in unknown if name.isidentifier()) or "not printable"
        raise IngestionConfigurationError(
            f"{contract.name} has no such fields ({shown}); it has {', '.join(names)}",
            code="unknown_fields",
        )
    known = {*names, *contract.redacted_fields}
    before = kept.payload if isinstance(kept.payload, dict) else {}
    record = {name: value for name, value in before.items() if name in known} | dict(given)
    lacking = [name for name in kept.altered if name in known and name not in given]
    redacted = Redactor(contract, read_key(contract, environ)).redact_given(record)
    corrected = replace(kept, correction=record)
    if redacted:
        field, rule = redacted
        return _wrong(corrected, f"{field.name}.{rule}", field.name, explain(field, rule))
    if lacking:
        error = (
            f"{lacking[0]} was not kept as it was sent; give it too, or fetch the partition again"
        )
        return _wrong(corrected, f"{lacking[0]}.not_kept", lacking[0], error)
    return Judged(corrected, record=record)


def compose_partition(
    connection: psycopg.Connection,
    resource: Resource,
    partition: Partition,
    base: Base,
    retried: Sequence[KeptRecord],
    *,
    run_id: str,
    spool_dir: Path,
) -> Composed:
    """Spools the rows of the base and the records that pass; a record that was in it is replaced.

    Any role that may read staging. Raises `IngestionError` when the base is not what was adopted.
    """
    from ingestion.tables import TableBuilder, join_tables

    rows = read_artifact_rows(connection, resource, base.artifact_id)
    if rows.num_rows != base.loaded:
        raise IngestionError(
            f"{partition}: the rows that it is to take over are not what was adopted; fetch the "
            "partition again with --refresh",
            code="artifact_damaged",
        )
    builder = TableBuilder(resource.contract)
    judge = kept_judge(resource.contract, partition)
    refs = rows.column("_source_ref").to_pylist()
    judge.remember(_without(rows, retried))
    judged = [
        _place(judge, builder, kept)
        if kept.is_of_origin or any(map(kept.is_in_row, refs))
        else _elsewhere(kept)
        for kept in retried
    ]
    passed = [item.kept for item in judged if item.record is not None]
    table = join_tables(_without(rows, passed), builder.finish())
    if table.num_rows > base.fetched:
        raise IngestionError(
            f"{partition}: {table.num_rows} records would be loaded of {base.fetched} that the source "
            "sent; report this as a defect",
            code="records_unaccounted",
        )
    facts = {
        "resource": resource.full_name,
        "partition": str(partition),
        "run_id": run_id,
        "fetched": base.fetched,
        "schema_version": base.schema_version,
        "contract_version": resource.contract.version,
        "unexpected_fields": base.unexpected_fields,
        "fetched_at": base.fetched_at,
    }
    spooled = write_spooled(spool_dir, table, [], facts)
    # The records that stay out are in the quarantine already.
    fetched = replace(spooled, rejected=base.fetched - table.num_rows)
    return Composed(fetched, tuple(judged))


def _place(judge: PartitionJudge, builder: Any, kept: KeptRecord) -> Judged:
    """Judges a record and, if it passes and fits its columns, adds it to the table."""
    judged = judge_kept(judge, kept)
    if judged.record is None:
        return judged
    unfit = len(builder.unstorable)
    builder.add([judged.record], [kept.row_ref])
    if len(builder.unstorable) == unfit:
        return judged
    field = builder.unstorable[unfit].field
    error = explain(field, "unstorable", judged.record.get(field.name))
    return _wrong(kept, f"{field.name}.unstorable", field.name, error)


def _elsewhere(kept: KeptRecord) -> Judged:
    """A record of an earlier artifact has a place in this one only where its correction is."""
    error = "its correction is no part of what was fetched last; retry the record as it came then"
    return Judged(
        kept, problem=RejectedRecord(kept.row_ref, "not_in_use", None, error, kept.payload)
    )


def _wrong(kept: KeptRecord, rule: str, field: str, error: str) -> Judged:
    return Judged(kept, problem=RejectedRecord(kept.row_ref, rule, field, error, kept.payload))


def _without(rows: Any, kept: Sequence[KeptRecord]) -> Any:
    """The rows that are none of these records."""
    import pyarrow as pa

    refs = rows.column("_source_ref").to_pylist()
    stays = [not any(record.is_in_row(ref) for record in kept) for ref in refs]
    return rows.filter(pa.array(stays, pa.bool_()))

"""What a partition that was fetched again means for records that were corrected by hand.

As long as the source sends the very record that was corrected, the correction takes its place again.
Whatever else the source says about it counts more than the correction, and is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ingestion.checks import PartitionJudge
from ingestion.contracts import Contract
from ingestion.partitions import Partition
from ingestion.rejections import RejectedRecord
from ingestion.resources import Resource
from ingestion.retries import KeptRecord, judge_kept, kept_judge
from ingestion.spool import Fetched, read_rejected, read_rows, write_spooled


class Fate(StrEnum):
    """What became of a correction; all but the first end it."""

    APPLIED = "applied"
    CORRECTED = "corrected"
    CHANGED = "changed"
    WITHDRAWN = "withdrawn"
    UNFIT = "unfit"


_WORDS = {
    Fate.APPLIED: "the source still sends the record that was corrected by hand; the correction was "
    "applied again",
    Fate.CORRECTED: "the source itself sends the record in order now; the correction by hand is "
    "superseded",
    Fate.CHANGED: "the source sends another record now, which breaks a rule too and is held; the "
    "correction by hand is superseded",
    Fate.WITHDRAWN: "the source does not send the record any more; the correction by hand is superseded",
    Fate.UNFIT: "the source still sends the record, but the correction by hand does not fulfil the "
    "contract any more; the record is held again",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a fetched partition meant for one correction."""

    record_id: int
    fate: Fate

    @property
    def message(self) -> str:
        """One sentence for people."""
        return _WORDS[self.fate]


@dataclass(frozen=True, slots=True)
class Amended:
    """The spooled partition with the corrections that still apply, and what became of each."""

    fetched: Fetched
    outcomes: tuple[Outcome, ...]


def apply_corrections(
    resource: Resource, fetched: Fetched, corrections: Sequence[KeptRecord], spool_dir: Path
) -> Amended:
    """Spools the partition anew if a correction applies; fetched = accepted + rejected as before.

    Raises `FileNotFoundError` when the fetched rows are gone, and `OSError`.
    """
    from ingestion.tables import TableBuilder, join_tables

    contract = resource.contract
    rows, rejected = read_rows(spool_dir, fetched.ref), read_rejected(spool_dir, fetched.ref)
    judge = kept_judge(contract, Partition.parse(fetched.partition))
    judge.remember(rows)
    builder = TableBuilder(contract)
    outcomes = [_apply(judge, builder, contract, kept, rejected) for kept in corrections]
    if not any(outcome.fate is Fate.APPLIED for outcome in outcomes):
        return Amended(fetched, tuple(outcomes))
    table = join_tables(rows, builder.finish())
    facts = fetched.to_json() | {
        "fetched_at": fetched.fetched_at,
        "unexpected_fields": fetched.unexpected_fields,
    }
    for derived in ("ref", "checksum", "accepted", "rejected"):
        del facts[derived]
    return Amended(write_spooled(spool_dir, table, rejected, facts), tuple(outcomes))


def _apply(
    judge: PartitionJudge,
    builder: Any,
    contract: Contract,
    kept: KeptRecord,
    rejected: list[RejectedRecord],
) -> Outcome:
    """Puts the correction in the place of the record it was made for, which leaves `rejected`."""
    correction = kept.correction or {}
    if judge.has_key_of(correction):
        return Outcome(kept.record_id, Fate.CORRECTED)
    same = next((item for item in rejected if _is_same(kept.payload, item.payload, contract)), None)
    if same is None:
        fate = Fate.CHANGED if _is_changed(kept, rejected, contract) else Fate.WITHDRAWN
        return Outcome(kept.record_id, fate)
    placed = replace(kept, source_ref=same.source_ref)
    judged = judge_kept(judge, placed)
    if judged.record is not None:
        builder.add([judged.record], [placed.row_ref])
    if judged.record is None or builder.unstorable:
        builder.unstorable.clear()
        return Outcome(kept.record_id, Fate.UNFIT)
    rejected.remove(same)
    return Outcome(kept.record_id, Fate.APPLIED)


def _is_same(before: Any, now: Any, contract: Contract) -> bool:
    """Whether the source sends what it sent, as far as today's contract knows the fields of then."""
    if not isinstance(before, dict) or not isinstance(now, dict):
        return False
    shared = [name for name in before if name in contract.redacted_fields]
    return bool(shared) and all(name in now and now[name] == before[name] for name in shared)


def _is_changed(kept: KeptRecord, rejected: Sequence[RejectedRecord], contract: Contract) -> bool:
    """Whether one of the rejected records has the key of the record, as sent or corrected."""
    keys = {_key(kept.payload, contract), _key(kept.correction, contract)} - {None}
    return any(_key(item.payload, contract) in keys for item in rejected)


def _key(record: Any, contract: Contract) -> tuple[str, ...] | None:
    names = [name for name, column in contract.stored_names.items() if column in contract.key]
    if not isinstance(record, dict) or not all(name in record for name in names):
        return None
    return tuple(repr(record[name]) for name in names)

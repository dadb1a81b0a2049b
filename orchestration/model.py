"""What a run is: one accepted request to bring some partitions to publication."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ingestion.partitions import Partition
from orchestration.identity import RunId


class TriggerKind(StrEnum):
    MANUAL = "manual"
    SCHEDULE = "schedule"
    WEBHOOK = "webhook"
    MICRO_BATCH = "micro_batch"
    BACKFILL = "backfill"


class StageName(StrEnum):
    """The stages, in the order in which they run."""

    INITIALIZE = "initialize"
    EXTRACT = "extract"
    VALIDATE = "validate"
    TRANSFORM = "transform"
    GATE = "gate"
    PUBLISH = "publish"
    NOTIFY = "notify"


class StageStatus(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    REUSED = "reused"
    SKIPPED = "skipped"
    HELD = "held"
    FAILED = "failed"


class Outcome(StrEnum):
    PUBLISHED = "published"
    UNCHANGED = "unchanged"
    DEGRADED = "degraded"
    HELD = "held"
    FAILED = "failed"


class Cause(StrEnum):
    """Why a run or a unit ended without a result and is not tried again by itself."""

    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    PERMANENT_ERROR = "permanent_error"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"


def cause_of(error_code: str, *, transient: bool) -> Cause:
    """The cause that an end with this failure has."""
    if error_code in set(Cause):
        return Cause(error_code)
    return Cause.ATTEMPTS_EXHAUSTED if transient else Cause.PERMANENT_ERROR


class PartitionState(StrEnum):
    REQUESTED = "requested"
    EXTRACTED = "extracted"
    REUSED = "reused"
    QUARANTINED = "quarantined"
    FAILED = "failed"


@dataclass(frozen=True)
class Run:
    """A row of ops.runs; `request` is what was asked for, as JSON."""

    run_id: RunId
    pipeline: str
    trigger_kind: TriggerKind
    trigger_key: str
    code_id: str
    code_commit: str | None
    code_dirty: bool | None
    publish: bool
    as_of: datetime
    correlation_id: str
    workflow_id: str
    status: str
    outcome: Outcome | None
    version_id: str | None
    request: dict[str, Any] = field(default_factory=dict)
    failure: dict[str, Any] | None = None


@dataclass(frozen=True)
class RunPartition:
    """One partition that a run asked for and what became of it."""

    partition: Partition
    state: PartitionState
    artifact_id: str | None

"""What a stage is to the runner: units of work with a key each, and results to be written down.

A stage returns results and never writes its own checkpoint. Whatever it raises is classified by the
runner and counts for all units that it has not answered for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import psycopg

from orchestration.code import Code
from orchestration.errors import QualityFailure, SluiceError
from orchestration.identity import IdempotencyKey, idempotency_key
from orchestration.model import Run, RunPartition, StageName
from orchestration.pipelines.spec import PipelineSpec
from orchestration.settings import Settings
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.sessions import Sessions


@dataclass(frozen=True)
class Unit:
    """One thing a stage does: a partition, or the digest of everything the stage consumes.

    `step` names a part of the stage that has a checkpoint of its own; its key ends in `stage.step`.
    `lease_name` is the lease whose fence its writes carry.
    """

    pipeline: str
    stage: StageName
    source_partition: str
    lease_name: str
    input_ref: str
    step: str = ""

    @property
    def key(self) -> IdempotencyKey:
        stage = f"{self.stage}.{self.step}" if self.step else self.stage.value
        return idempotency_key(self.pipeline, self.source_partition, stage)


@dataclass(frozen=True)
class Checkpoint:
    """The durable row of one unit; `result` is what the stage wrote down about it, as JSON."""

    idempotency_key: str
    status: str
    run_id: str
    fence: int
    attempt: int
    input_ref: str | None = None
    output_ref: str | None = None
    checksum: str | None = None
    result: dict[str, Any] = field(default_factory=dict)
    error_code: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.status == "succeeded"


@dataclass(frozen=True)
class UnitDone:
    """A unit's result, or the result of one step of it."""

    unit: Unit
    output_ref: str
    checksum: str | None = None
    result: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UnitFailed:
    unit: Unit
    error: SluiceError


UnitResult = UnitDone | UnitFailed


@dataclass(frozen=True)
class Claim:
    """A unit that this process may work on now, under `lease`."""

    unit: Unit
    lease: Lease
    attempt: int


@dataclass(frozen=True)
class Conclusion:
    """What the whole stage came to. `held` says why the run may not go on to publication.

    `left_out` are partitions that the version is to be built again without.
    """

    output_ref: str
    held: QualityFailure | None = None
    left_out: tuple[str, ...] = ()


class TimeBudget(Protocol):
    """The time that a stage may use."""

    @property
    def is_low(self) -> bool: ...

    @property
    def remaining_s(self) -> float: ...


class Progress(Protocol):
    """What a person sees while a stage works; `done` and `total` count the stage's own things."""

    def update(
        self, stage: str, text: str, done: int | None = None, total: int | None = None
    ) -> None: ...


@dataclass
class StageContext:
    """Everything that a stage may use. `connection` is the runner's, in autocommit.

    `memory` holds what an earlier stage of the same process can spare a later one (a parsed dbt
    project); nothing that is needed to resume lives there.
    """

    settings: Settings
    warehouse: Warehouse
    pipeline: PipelineSpec
    run: Run
    code: Code
    connection: psycopg.Connection
    run_lease: Lease
    progress: Progress
    check_leases: Callable[[], None]
    """Raises `LeaseLost` or `Cancelled`; cheap, so ask often."""
    read_checkpoints: Callable[[list[Unit]], dict[Unit, Checkpoint]]
    budget: TimeBudget
    partitions: list[RunPartition]
    work_dir: Path
    memory: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None
    """Begins, in the background, what later stages of this process need; for a stage that has to
    wait for others."""
    is_cancelled: Callable[[], bool] = lambda: False
    """For threads that cannot raise in the stage's own: whether to stop at the next opportunity."""

    @cached_property
    def sessions(self) -> Sessions:
        """The connections of other roles, kept from stage to stage."""
        return Sessions(self.warehouse)


class Stage(Protocol):
    """One of the seven stages."""

    name: StageName

    def units(self, context: StageContext) -> list[Unit]:
        """What there is to do, without doing anything."""

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        """Which of these finished units may be reused: their output exists and its checksum holds."""

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        """Does the claimed units, yielding each result as soon as it is durable."""

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        """What the stage came to, once every unit has succeeded; the same however often it is asked."""

"""What a pass writes into its run's own rows: how stages began and ended, what became of partitions.

Under the run's lease. A pass over a run that had ended well before writes nothing.
"""

from collections.abc import Collection
from dataclasses import dataclass

from ingestion.partitions import Partition
from orchestration.model import PartitionState, StageName, StageStatus
from orchestration.runs.ended import StageLine
from orchestration.runs.stage_runner import StageReport
from orchestration.runs.state import (
    finish_stage,
    mark_partitions,
    note_stage,
    start_stage,
)
from orchestration.stages.base import Conclusion, StageContext


@dataclass(frozen=True)
class RunRows:
    """`repeats_finished`: nothing is written. Each method is a transaction; raises `LeaseLost`."""

    context: StageContext
    repeats_finished: bool

    def start(self, stage: StageName, *, goes_on: bool) -> None:
        """`goes_on`: another process may have said already that the run is in this stage."""
        if self.repeats_finished:
            return
        context = self.context
        start_stage(
            context.connection, context.run.run_id, stage, _position(stage), context.run_lease,
            owner=self._owner(stage), goes_on=goes_on,
        )  # fmt: skip

    def finish(self, line: StageLine, report: StageReport) -> None:
        """Of a stage that was started here."""
        if self.repeats_finished or self.context.connection.broken:
            return
        keys = [unit.key for unit in (*report.finished, *report.failed)]
        finish_stage(
            self.context.connection,
            self.context.run.run_id,
            line.stage,
            self.context.run_lease,
            line.status,
            idempotency_key=keys[0] if len(keys) == 1 else None,
            attempts=line.attempts,
            input_ref=line.input_ref,
            output_ref=line.output_ref,
        )

    def note(self, line: StageLine) -> None:
        """Of a stage that was found finished; what its own process wrote stays."""
        if self.repeats_finished:
            return
        context = self.context
        note_stage(
            context.connection, context.run.run_id, line.stage, _position(line.stage),
            context.run_lease, line.status, owner=self._owner(line.stage), attempts=line.attempts,
            input_ref=line.input_ref, output_ref=line.output_ref,
        )  # fmt: skip

    def mark_extracted(self, report: StageReport) -> None:
        """What became of the run's partitions at the source."""
        units = {unit.source_partition: unit for unit in (*report.finished, *report.failed)}
        marks: list[tuple[Partition, PartitionState, str | None]] = []
        for item in self.context.partitions:
            unit = units.get(str(item.partition))
            if unit is None:
                continue
            checkpoint = report.finished.get(unit)
            state = PartitionState.FAILED
            if checkpoint is not None:
                own = checkpoint.run_id == self.context.run.run_id and not self.repeats_finished
                state = PartitionState.EXTRACTED if own else PartitionState.REUSED
            marks.append((item.partition, state, checkpoint.output_ref if checkpoint else None))
        self._mark(marks)

    def mark_quarantined(self, rejected: Collection[str]) -> None:
        """Which of them may not enter a version, by name."""
        self._mark(
            [
                (item.partition, PartitionState.QUARANTINED, None)
                for item in self.context.partitions
                if str(item.partition) in rejected
            ]
        )

    def status_of(
        self, report: StageReport, conclusion: Conclusion, *, shared: bool
    ) -> StageStatus:
        """How a stage ended that did not fail.

        `shared`: what other processes of the run finished is no less the run's own.
        """
        if conclusion.held is not None:
            return StageStatus.HELD
        everything_reused = report.reused > 0 and report.reused == len(report.finished)
        if shared and not self.repeats_finished:
            owners = {checkpoint.run_id for checkpoint in report.finished.values()}
            everything_reused = self.context.run.run_id not in owners
        reused = everything_reused or self.repeats_finished
        return StageStatus.REUSED if reused else StageStatus.SUCCEEDED

    def _mark(self, marks: list[tuple[Partition, PartitionState, str | None]]) -> None:
        if marks and not self.repeats_finished:
            run = self.context.run
            mark_partitions(self.context.connection, run.run_id, self.context.run_lease, marks)

    def _owner(self, stage: StageName) -> str:
        return self.context.pipeline.owner_of(stage).email


def count(line: StageLine, report: StageReport) -> None:
    """Fills in what a stage was about and how often it was attempted."""
    line.attempts = report.attempts
    units = report.units
    line.input_ref = units[0].input_ref if len(units) == 1 else f"{len(units)} partitions"


def _position(stage: StageName) -> int:
    return list(StageName).index(stage)

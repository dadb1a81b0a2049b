"""One pass through the stages: what each came to, where the run ends, and who must be told."""

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from ingestion.partitions import Partition
from orchestration.errors import Busy, LeaseLost, QualityFailure, SluiceError
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import VersionId
from orchestration.logs import bind, get_logger
from orchestration.model import Outcome, PartitionState, StageName, StageStatus
from orchestration.pipelines.stages import OnFailure
from orchestration.runs.ended import Ended, StageLine, failure_as_json, out_of_time
from orchestration.runs.leases import Heartbeat, acquire, release
from orchestration.runs.messages import tell_end
from orchestration.runs.stage_runner import StageReport, StageRunner
from orchestration.runs.state import (
    finish_run,
    finish_stage,
    mark_partitions,
    start_run,
    start_stage,
)
from orchestration.stages.base import Conclusion, Stage, StageContext
from orchestration.stages.extract import ExtractStage
from orchestration.stages.gate import GateStage
from orchestration.stages.initialize import InitializeStage
from orchestration.stages.notify import NotifyStage
from orchestration.stages.publish import PublishStage
from orchestration.stages.transform import TransformStage
from orchestration.stages.validate import (
    ValidateStage,
    left_out_partitions,
    rejected_partitions,
)
from orchestration.warehouse.artifacts import find_adopted
from orchestration.warehouse.fence import Lease, build_lease

_BUILD_LEASE_WAIT_S = 900.0


@dataclass
class Drive:
    """`repeats_finished`: the run had ended well before, so this pass only looks again."""

    context: StageContext
    heartbeat: Heartbeat
    repeats_finished: bool
    lines: list[StageLine] = field(default_factory=list)
    current: StageName | None = None

    def go(self) -> Ended:
        """Raises `psycopg.OperationalError` when the connection was cut: go again."""
        self.lines.clear()
        self.context.memory.clear()
        if not self.repeats_finished:
            reach(FaultPoint.RUN_BEFORE_START)
            start_run(self.context.connection, self.context.run.run_id, self.context.run_lease)
            reach(FaultPoint.RUN_AFTER_START)
        try:
            ended = self._through_stages()
        except (Busy, LeaseLost):
            raise
        except SluiceError as error:
            ended = Ended(
                Outcome.FAILED, self.context.memory.get("version_id"), error, self.current
            )
        self._tell(ended)
        if not self.repeats_finished:
            reach(FaultPoint.RUN_BEFORE_FINISH)
            with self.context.connection.transaction():
                finish_run(
                    self.context.connection,
                    self.context.run.run_id,
                    self.context.run_lease,
                    ended.outcome,
                    failure=failure_as_json(ended),
                    version_id=ended.version_id,
                )
        reach(FaultPoint.RUN_AFTER_FINISH)
        get_logger().info(
            "run ended",
            outcome=ended.outcome,
            version=ended.version_id,
            error_code=ended.failure and ended.failure.code,
        )
        return ended

    def _through_stages(self) -> Ended:
        memory = self.context.memory
        self._run(InitializeStage())
        if self.context.run.request.get("stop_after") == StageName.EXTRACT:
            self._run(ExtractStage())
            return Ended(Outcome.UNCHANGED)
        lease = self._extract()
        try:
            with self.heartbeat.keep(lease):
                report, conclusion = self._run(ValidateStage(), lease)
                memory["rejected"] = left_out_partitions(self.context, report.finished)
                if conclusion.held:
                    return Ended(Outcome.HELD, None, conclusion.held, StageName.VALIDATE)
                if self.context.run.request.get("stop_after") == StageName.VALIDATE:
                    return Ended(Outcome.UNCHANGED)
                while True:
                    _, conclusion = self._run(TransformStage(), lease)
                    memory["version_id"] = version = VersionId(conclusion.output_ref)
                    report, conclusion = self._run(GateStage(), lease)
                    [memory["gate_key"]] = [unit.source_partition for unit in report.finished]
                    if not conclusion.left_out:
                        break
                    # Set aside by the gate: built again without.
                    memory["rejected"] = sorted({*memory["rejected"], *conclusion.left_out})
                    self._mark_quarantined(conclusion.left_out)
                if conclusion.held:
                    return self._refused(version, conclusion.held)
                return self._publish(version, lease)
        finally:
            release(self.context.connection, lease)

    def _extract(self) -> Lease:
        """Has all partitions extracted, and then the build lease, under which they stay.

        Retention drops under that lease too, so what was reused is looked for again under it.
        """
        context = self.context
        while True:
            self._run(ExtractStage())
            lease = acquire(
                context.connection,
                build_lease(context.pipeline.name),
                wait_s=_BUILD_LEASE_WAIT_S,
                on_wait=lambda _: context.progress.update(
                    "wait", "another run builds for this pipeline; waiting for it"
                ),
                check=context.check_leases,
            )
            wanted = {str(item.partition) for item in context.partitions}
            if wanted == find_adopted(context.connection, context.pipeline.name, wanted).keys():
                return lease
            release(context.connection, lease)

    def _refused(self, version: VersionId, reason: QualityFailure) -> Ended:
        fails = self.context.pipeline.stages.gate.on_failure is OnFailure.FAIL
        return Ended(Outcome.FAILED if fails else Outcome.HELD, version, reason, StageName.GATE)

    def _publish(self, version: VersionId, lease: Lease) -> Ended:
        if not self.context.run.publish:
            self.lines.append(StageLine(StageName.PUBLISH, StageStatus.SKIPPED))
            return Ended(Outcome.UNCHANGED, version)
        report, _ = self._run(PublishStage(), lease)
        [checkpoint] = report.finished.values()
        by_this_run = bool(checkpoint.result.get("by_this_run"))
        # What a finished run published when it first ran is no news when it is asked for again.
        if checkpoint.run_id != self.context.run.run_id or (
            self.repeats_finished and report.reused
        ):
            by_this_run = False
        if self.context.memory["rejected"] and not self.repeats_finished:
            return Ended(Outcome.DEGRADED, version)
        return Ended(Outcome.PUBLISHED if by_this_run else Outcome.UNCHANGED, version)

    def _run(self, stage: Stage, *held: Lease) -> tuple[StageReport, Conclusion]:
        """Runs one stage; raises the failure that it ended with."""
        self.current = stage.name
        context, began = self.context, time.monotonic()
        position = list(StageName).index(stage.name)
        leases = {lease.name: lease for lease in (context.run_lease, *held)}
        line = StageLine(stage.name, StageStatus.RUNNING)
        self.lines.append(line)
        context.progress.update(stage.name, "")
        with bind(stage=stage.name):
            if not self.repeats_finished:
                start_stage(
                    context.connection,
                    context.run.run_id,
                    stage.name,
                    position,
                    context.run_lease,
                    owner=context.pipeline.owner_of(stage.name).email,
                )
            get_logger().info("stage started")
            runner = StageRunner(context, stage, leases, self.heartbeat)
            try:
                report = runner.run()
                if stage.name is StageName.EXTRACT:
                    self._mark_partitions(report)
                if report.error is not None or report.remaining:
                    # A cancelled fetch looks like one that ran out of time.
                    context.check_leases()
                if report.error is not None:
                    raise report.error
                if report.remaining:
                    raise out_of_time(stage.name, len(report.remaining))
                conclusion = stage.conclude(context, report.finished)
            except SluiceError:
                line.status = StageStatus.FAILED
                raise
            else:
                line.status = _status(report, conclusion, self.repeats_finished)
                line.output_ref = conclusion.output_ref
                if stage.name is StageName.VALIDATE:
                    self._mark_quarantined(rejected_partitions(report.finished))
            finally:
                line.duration_s = round(time.monotonic() - began, 3)
                self._describe(line, runner.report)
                self._write_line(line, runner.report)
        return report, conclusion

    def _describe(self, line: StageLine, report: StageReport) -> None:
        line.attempts = report.attempts
        units = [*report.finished, *report.failed, *report.remaining]
        line.input_ref = units[0].input_ref if len(units) == 1 else f"{len(units)} partitions"
        get_logger().info(
            "stage ended",
            status=line.status,
            attempts=line.attempts,
            reused=report.reused,
            units=len(units),
            duration_s=line.duration_s,
            output_ref=line.output_ref,
        )

    def _write_line(self, line: StageLine, report: StageReport) -> None:
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

    def _mark_partitions(self, report: StageReport) -> None:
        """Writes into the run's own rows what became of its partitions."""
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
        self._write_marks(marks)

    def _mark_quarantined(self, rejected: Collection[str]) -> None:
        self._write_marks(
            [
                (item.partition, PartitionState.QUARANTINED, None)
                for item in self.context.partitions
                if str(item.partition) in rejected
            ]
        )

    def _write_marks(self, marks: list[tuple[Partition, PartitionState, str | None]]) -> None:
        if marks and not self.repeats_finished:
            run = self.context.run
            mark_partitions(self.context.connection, run.run_id, self.context.run_lease, marks)

    def _tell(self, ended: Ended) -> None:
        """Writes what owners are told about this end, and delivers what waits."""
        context = self.context
        with context.connection.transaction():
            tell_end(
                context.connection, context.pipeline, context.run, context.run_lease,
                ended.outcome, failure_as_json(ended), context.memory.get("rejected", ()),
            )  # fmt: skip
        # The run has ended by now: a request to cancel it comes too late.
        check, context.check_leases = context.check_leases, self.heartbeat.check
        try:
            self._run(NotifyStage())
        except (Busy, LeaseLost):
            raise
        except SluiceError as error:
            get_logger().warning("nobody was told", error_code=error.code, message=error.message)
        finally:
            context.check_leases = check


def _status(report: StageReport, conclusion: Conclusion, repeats: bool) -> StageStatus:
    if conclusion.held is not None:
        return StageStatus.HELD
    everything_reused = report.reused > 0 and report.reused == len(report.finished)
    return StageStatus.REUSED if everything_reused or repeats else StageStatus.SUCCEEDED

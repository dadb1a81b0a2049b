"""One pass through the stages: what each came to, where the run ends, and who must be told.

A pass for one stage does that stage's work alone. It looks at the others, and stops before the first
that is not finished, which is then the next one's.
"""

import time
from dataclasses import dataclass, field
from typing import NoReturn

from orchestration.errors import Busy, LeaseLost, QualityFailure, SluiceError
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import VersionId
from orchestration.logs import bind, get_logger
from orchestration.model import Outcome, StageName, StageStatus
from orchestration.pipelines.stages import OnFailure
from orchestration.runs.ended import Ended, StageLine, failure_as_json, out_of_time
from orchestration.runs.leases import Heartbeat, acquire, release
from orchestration.runs.messages import tell_end
from orchestration.runs.run_rows import RunRows, count
from orchestration.runs.stage_runner import StageReport, StageRunner
from orchestration.runs.state import finish_run, start_run
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

BUILD_LEASE_WAIT_S = 900.0


class Onward(Exception):
    """The pass was for one stage, and the run goes on with the work of another, `stage`."""

    def __init__(self, stage: StageName) -> None:
        super().__init__(stage)
        self.stage = stage


@dataclass
class Drive:
    """`repeats_finished`: the run had ended well before, so this pass only looks again.

    `only` is the stage that the pass is for; without it, for all.
    """

    context: StageContext
    heartbeat: Heartbeat
    repeats_finished: bool
    only: StageName | None = None
    lines: list[StageLine] = field(default_factory=list)
    current: StageName | None = None

    def go(self) -> Ended:
        """Raises `psycopg.OperationalError` when the connection was cut: go again; and `Onward`."""
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
        if ended.failure is None and self.only not in (None, StageName.NOTIFY):
            # A run that ends badly is told of by the pass that it ended in.
            self._hand_on(StageName.NOTIFY)
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
                    self._rows.mark_quarantined(conclusion.left_out)
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
            if self.only in (StageName.INITIALIZE, StageName.EXTRACT):
                # Not for a look at what comes next would one wait for another run's build.
                self._hand_on(StageName.VALIDATE)
            lease = acquire(
                context.connection,
                build_lease(context.pipeline.name),
                wait_s=BUILD_LEASE_WAIT_S,
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
        """Runs one stage, or looks at another pass's; raises the failure that it ended with."""
        self.current = stage.name
        context, began = self.context, time.monotonic()
        leases = {lease.name: lease for lease in (context.run_lease, *held)}
        runner = StageRunner(context, stage, leases, self.heartbeat)
        # Whoever ends the run tells it, whatever stage it ended in.
        if self.only not in (None, stage.name) and stage.name is not StageName.NOTIFY:
            return self._look(stage, runner)
        line = StageLine(stage.name, StageStatus.RUNNING)
        self.lines.append(line)
        context.progress.update(stage.name, "")
        with bind(stage=stage.name):
            self._rows.start(stage.name, goes_on=self.only is not None)
            get_logger().info("stage started")
            try:
                report = runner.run()
                if stage.name is StageName.EXTRACT:
                    self._rows.mark_extracted(report)
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
                line.status = self._rows.status_of(report, conclusion, shared=self.only is not None)
                line.output_ref = conclusion.output_ref
                if stage.name is StageName.VALIDATE:
                    self._rows.mark_quarantined(rejected_partitions(report.finished))
            finally:
                line.duration_s = round(time.monotonic() - began, 3)
                count(line, runner.report)
                _log_end(line, runner.report)
                self._rows.finish(line, runner.report)
        return report, conclusion

    def _look(self, stage: Stage, runner: StageRunner) -> tuple[StageReport, Conclusion]:
        """What a finished stage came to. Raises `Onward` when there is something left to do."""
        try:
            todo = runner.look()
        except SluiceError:
            # The pass for that stage meets it too, and ends the run in the stage's name.
            self._hand_on(stage.name)
        if todo:
            self._hand_on(stage.name)
        report = runner.report
        conclusion = stage.conclude(self.context, report.finished)
        if stage.name is StageName.EXTRACT:
            self._rows.mark_extracted(report)
        if stage.name is StageName.VALIDATE:
            self._rows.mark_quarantined(rejected_partitions(report.finished))
        status = self._rows.status_of(report, conclusion, shared=True)
        line = StageLine(stage.name, status, output_ref=conclusion.output_ref)
        count(line, report)
        self.lines.append(line)
        self._rows.note(line)
        return report, conclusion

    def _hand_on(self, stage: StageName) -> NoReturn:
        """Ends the pass; from now on the run is in that stage, however long it waits for a process."""
        self._rows.start(stage, goes_on=True)
        raise Onward(stage)

    @property
    def _rows(self) -> RunRows:
        return RunRows(self.context, self.repeats_finished)

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


def _log_end(line: StageLine, report: StageReport) -> None:
    get_logger().info(
        "stage ended",
        status=line.status,
        attempts=line.attempts,
        reused=report.reused,
        units=len(report.units),
        duration_s=line.duration_s,
        output_ref=line.output_ref,
    )

"""How one stage is run: find what is finished, claim the rest, do it, write down what became of it.

Nothing is done without a lease, and nothing written down without its fence. Transient failures are
tried again with backoff until the stage's attempts or its budget run out.
"""

import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import psycopg

from orchestration.errors import Busy, Cancelled, LeaseLost, SluiceError
from orchestration.failures import classify
from orchestration.failures.backoff import backoff_s, pause_s
from orchestration.faultpoints import FaultPoint, reach
from orchestration.logs import bind, get_logger
from orchestration.runs.budget import Budget
from orchestration.runs.checkpoints import (
    begin_attempts,
    claim_units,
    read_checkpoints,
    record_failure,
    record_success,
)
from orchestration.runs.leases import Heartbeat, release
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Stage,
    StageContext,
    Unit,
    UnitDone,
    UnitFailed,
)
from orchestration.warehouse.connections import Role
from orchestration.warehouse.fence import Lease

_BUSY_WAIT_S = 900.0
_BUSY_POLL_S = 0.5

_Row = TypeVar("_Row")


@dataclass
class StageReport:
    """What became of each unit: finished ones with their checkpoint, failed ones with their error."""

    finished: dict[Unit, Checkpoint] = field(default_factory=dict)
    failed: dict[Unit, SluiceError] = field(default_factory=dict)
    remaining: list[Unit] = field(default_factory=list)
    attempts: int = 0
    reused: int = 0

    @property
    def units(self) -> list[Unit]:
        return [*self.finished, *self.failed, *self.remaining]

    @property
    def error(self) -> SluiceError | None:
        """The failure to report: a permanent one before a transient one."""
        errors = sorted(self.failed.values(), key=lambda error: error.transient)
        return errors[0] if errors else None


class StageRunner:
    """Runs one stage of one run. `held` are the leases that the caller already has, by name."""

    def __init__(
        self, context: StageContext, stage: Stage, held: dict[str, Lease], heartbeat: Heartbeat
    ) -> None:
        self._context = context
        self._stage = stage
        self._held = held
        self._heartbeat = heartbeat
        self._policy = context.pipeline.stages.policy(stage.name)
        self._tries: Counter[Unit] = Counter()
        self.report = StageReport()

    def look(self) -> list[Unit]:
        """What there is left to do, without doing it; what is finished is in the report."""
        self._context.budget = Budget(self._policy.budget_seconds)
        units = self._stage.units(self._context)
        todo = self._reuse_finished(units)
        self.report.reused = len(units) - len(todo)
        return todo

    def run(self) -> StageReport:
        """Raises `Busy` when others hold what is needed for too long, `LeaseLost` when it was lost."""
        context, todo = self._context, self.look()
        busy_since: float | None = None
        while todo and not context.budget.is_low:
            context.check_leases()
            reach(FaultPoint.STAGE_BEFORE_ATTEMPT, self._stage.name)
            claims = self._claim(todo)
            if not claims:
                busy_since = busy_since or time.monotonic()
                self._wait_for_others(todo, busy_since)
                todo = self._reuse_finished(todo)
                continue
            busy_since = None
            reach(FaultPoint.STAGE_AFTER_ATTEMPT, self._stage.name)
            self._do(claims)
            todo = [unit for unit in todo if unit not in self.report.finished]
            failed = [unit for unit in todo if unit in self.report.failed]
            if any(self._is_final(unit, self.report.failed[unit]) for unit in failed):
                break
            if failed:
                worst = max(self._tries[unit] for unit in failed)
                errors = [self.report.failed[unit] for unit in failed]
                wait = pause_s(worst, errors, remaining_s=context.budget.remaining_s)
                if wait is None:
                    break
                self._pause(wait)
        self.report.remaining = [unit for unit in todo if unit not in self.report.failed]
        return self.report

    def _pause(self, seconds: float) -> None:
        """Waits, unless the lease is lost or the run cancelled meanwhile."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _BUSY_POLL_S))
            self._context.check_leases()

    def _is_final(self, unit: Unit, error: SluiceError) -> bool:
        return not error.transient or self._tries[unit] >= self._policy.max_attempts

    def _wait_for_others(self, todo: list[Unit], since: float) -> None:
        if time.monotonic() - since > _BUSY_WAIT_S:
            raise Busy(
                f"another run works on {todo[0].input_ref} and {len(todo) - 1} more; wait until it "
                "has finished and run the same command again"
            )
        time.sleep(_BUSY_POLL_S)

    def _reuse_finished(self, units: list[Unit]) -> list[Unit]:
        checkpoints = read_checkpoints(self._context.connection, units)
        finished = {unit: found for unit, found in checkpoints.items() if found.succeeded}
        valid = self._stage.still_valid(self._context, finished) if finished else set()
        for unit in valid:
            self.report.finished[unit] = finished[unit]
            self.report.attempts = max(self.report.attempts, finished[unit].attempt)
        return [unit for unit in units if unit not in valid]

    def _claim(self, todo: list[Unit]) -> list[Claim]:
        """Begins the next units that nobody else works on, under their leases."""
        connection, run_id = self._context.connection, self._context.run.run_id
        size = getattr(self._policy, "partitions_per_load", len(todo))
        # Nobody can have finished a unit whose lease was ours already when we looked.
        held = [unit for unit in todo if unit.lease_name in self._held]
        to_begin = [(unit, self._held[unit.lease_name]) for unit in held[:size]]
        free = [unit for unit in todo if unit.lease_name not in self._held]
        claims: list[Claim] = []
        while free and len(claims) + len(to_begin) < size:
            asked = free[: size - len(claims) - len(to_begin)]
            free = free[len(asked) :]
            for claimed in claim_units(connection, run_id, asked):
                if claimed.attempt is None:
                    to_begin += self._unless_finished(claimed.unit, claimed.lease)
                else:
                    claims.append(Claim(claimed.unit, claimed.lease, claimed.attempt))
        if to_begin:
            attempts = begin_attempts(connection, run_id, to_begin)
            claims += [Claim(unit, lease, attempts[unit]) for unit, lease in to_begin]
        return claims

    def _unless_finished(self, unit: Unit, lease: Lease) -> list[tuple[Unit, Lease]]:
        """Somebody may have finished a unit between our look and our lease, or its output is gone."""
        if self._reuse_finished([unit]):
            return [(unit, lease)]
        self._give_back(lease)
        return []

    def _do(self, claims: list[Claim]) -> None:
        leases = {claim.unit: claim.lease for claim in claims}
        open_units = dict(leases)
        for claim in claims:
            self.report.failed.pop(claim.unit, None)
            self.report.attempts = max(self.report.attempts, claim.attempt)
        own = [claim.lease for claim in claims if claim.lease.name not in self._held]
        try:
            with self._heartbeat.keep(*own), bind(attempt=max(claim.attempt for claim in claims)):
                try:
                    for result in self._stage.execute(self._context, claims):
                        self._heartbeat.check()
                        unit = self._write_down(result, leases)
                        if unit is not None:
                            open_units.pop(unit, None)
                        # What is done is written down first: a flip cannot be cancelled any more.
                        if open_units:
                            self._context.check_leases()
                except LeaseLost:
                    raise
                except Exception as error:  # noqa: BLE001 - every failure becomes a row
                    failure = self._cancellation() or classify(error)
                    get_logger().error(
                        "stage failed",
                        error_code=failure.code,
                        error_class=type(error).__name__,
                        message=failure.message,
                        **_place(error),
                    )
                    # Its success may be recorded, and its lease gone, when something fails after that.
                    for unit in [unit for unit in open_units if unit not in self.report.finished]:
                        self._write_down(UnitFailed(unit, failure), leases)
        finally:
            for claim in claims:
                # What is finished gave its lease back in the same transaction.
                if claim.unit not in self.report.finished:
                    self._give_back(claim.lease)

    def _cancellation(self) -> Cancelled | None:
        """The cause of whatever failed once somebody asked to stop: its statement was ended for it."""
        try:
            self._context.check_leases()
        except Cancelled as cancelled:
            return cancelled
        return None

    def _write_down(self, result: UnitDone | UnitFailed, leases: dict[Unit, Lease]) -> Unit | None:
        """Records a result; returns the unit that is settled by it (None for a mere step)."""
        unit = result.unit
        whole = _whole(unit)
        lease = leases[whole]
        match result:
            case UnitFailed(error=error):
                self._tries[unit] += 1
                is_final = self._is_final(unit, error)
                self._again(
                    lambda: record_failure(
                        self._context.connection, unit, lease, error, is_final=is_final
                    )
                )
                self.report.failed[unit] = error
                get_logger().warning(
                    "unit failed",
                    dataset=unit.source_partition,
                    error_code=error.code,
                    message=error.message,
                    transient=error.transient,
                )
                return unit
            case UnitDone():
                if unit.step:
                    begin_attempts(
                        self._context.connection, self._context.run.run_id, [(unit, lease)]
                    )
                else:
                    reach(FaultPoint.STAGE_BEFORE_SUCCESS, self._stage.name)
                checkpoint = self._again(lambda: self._record_done(result, lease))
                if unit.step:
                    return None
                self.report.finished[unit] = checkpoint
                reach(FaultPoint.STAGE_AFTER_SUCCESS, self._stage.name)
                return unit

    def _record_done(self, result: UnitDone, lease: Lease) -> Checkpoint:
        gives_back = not result.unit.step and lease.name not in self._held
        checkpoint = record_success(
            self._context.connection,
            result.unit,
            lease,
            output_ref=result.output_ref,
            checksum=result.checksum,
            result=result.result,
            give_back=gives_back,
        )
        if gives_back:
            self._heartbeat.forget(lease)
        return checkpoint

    def _again(self, write: Callable[[], _Row]) -> _Row:
        """Repeats a write whose answer was lost; under one fence it is the same as once."""
        for attempt in range(1, 5):
            try:
                return write()
            except psycopg.OperationalError:
                time.sleep(backoff_s(attempt))
                reconnect(self._context)
        return write()

    def _give_back(self, lease: Lease) -> None:
        if lease.name not in self._held:
            release(self._context.connection, lease)


def reconnect(context: StageContext) -> None:
    """A new connection for the runner when the old one was cut."""
    if context.connection.broken or context.connection.closed:
        context.connection.close()
        context.connection = context.warehouse.connect(Role.RUNNER, autocommit=True)


def _whole(unit: Unit) -> Unit:
    return replace(unit, step="") if unit.step else unit


def _place(error: BaseException) -> dict[str, str]:
    """Where in the code it was raised; never the values that were being handled."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return {}
    last = frames[-1]
    return {"where": f"{Path(last.filename).name}:{last.lineno} in {last.name}"}

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

import psycopg

from orchestration.errors import Busy, LeaseLost, SluiceError
from orchestration.failures import classify
from orchestration.logs import bind, get_logger
from orchestration.runs.budget import Budget
from orchestration.runs.checkpoints import (
    begin_attempts,
    read_checkpoints,
    record_failure,
    record_success,
)
from orchestration.runs.leases import Heartbeat, release, try_acquire
from orchestration.runs.retry import backoff_s
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


@dataclass
class StageReport:
    """What became of each unit: finished ones with their checkpoint, failed ones with their error."""

    finished: dict[Unit, Checkpoint] = field(default_factory=dict)
    failed: dict[Unit, SluiceError] = field(default_factory=dict)
    remaining: list[Unit] = field(default_factory=list)
    attempts: int = 0
    reused: int = 0

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
        self.report = StageReport()

    def run(self) -> StageReport:
        """Raises `Busy` when others hold what is needed for too long, `LeaseLost` when it was lost."""
        context = self._context
        context.budget = Budget(self._policy.budget_seconds)
        units = self._stage.units(context)
        todo = self._reuse_finished(units)
        self.report.reused = len(units) - len(todo)
        tries: Counter[Unit] = Counter()
        busy_since: float | None = None
        while todo and not context.budget.is_low:
            claims = self._claim(todo)
            if not claims:
                busy_since = busy_since or time.monotonic()
                self._wait_for_others(todo, busy_since)
                todo = self._reuse_finished(todo)
                continue
            busy_since = None
            self._do(claims)
            todo = [unit for unit in todo if unit not in self.report.finished]
            failed = [unit for unit in todo if unit in self.report.failed]
            tries.update(failed)
            if any(self._is_final(unit, tries[unit]) for unit in failed):
                break
            if failed:
                worst = max(tries[unit] for unit in failed)
                time.sleep(min(backoff_s(worst), context.budget.remaining_s))
        self.report.remaining = [unit for unit in todo if unit not in self.report.failed]
        return self.report

    def _is_final(self, unit: Unit, tries: int) -> bool:
        return not self.report.failed[unit].transient or tries >= self._policy.max_attempts

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
        """Takes the leases of the next units that nobody else works on."""
        size = getattr(self._policy, "partitions_per_load", len(todo))
        leases: list[tuple[Unit, Lease]] = []
        for unit in todo:
            if len(leases) >= size:
                break
            lease = self._held.get(unit.lease_name) or try_acquire(
                self._context.connection, unit.lease_name
            )
            if lease is not None:
                leases.append((unit, lease))
        # Somebody may have finished a unit between our look and our lease.
        open_units = set(self._reuse_finished([unit for unit, _ in leases]))
        for unit, lease in leases:
            if unit not in open_units:
                self._give_back(lease)
        leases = [(unit, lease) for unit, lease in leases if unit in open_units]
        attempts = begin_attempts(self._context.connection, self._context.run.run_id, leases)
        return [Claim(unit, lease, attempts[unit]) for unit, lease in leases]

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
                except LeaseLost:
                    raise
                except Exception as error:  # noqa: BLE001 - every failure becomes a row
                    failure = classify(error)
                    get_logger().error(
                        "stage failed",
                        error_code=failure.code,
                        error_class=type(error).__name__,
                        message=failure.message,
                        **_place(error),
                    )
                    for unit in list(open_units):
                        self._write_down(UnitFailed(unit, failure), leases)
        finally:
            for lease in own:
                self._give_back(lease)

    def _write_down(self, result: UnitDone | UnitFailed, leases: dict[Unit, Lease]) -> Unit | None:
        """Records a result; returns the unit that is settled by it (None for a mere step)."""
        unit = result.unit
        whole = _whole(unit)
        lease = leases[whole]
        match result:
            case UnitFailed(error=error):
                self._again(lambda: record_failure(self._context.connection, unit, lease, error))
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
                self._again(lambda: self._record_done(result, lease))
                if unit.step:
                    return None
                checkpoint = read_checkpoints(self._context.connection, [unit])[unit]
                self.report.finished[unit] = checkpoint
                return unit

    def _record_done(self, result: UnitDone, lease: Lease) -> None:
        record_success(
            self._context.connection,
            result.unit,
            lease,
            output_ref=result.output_ref,
            checksum=result.checksum,
            result=result.result,
        )

    def _again(self, write: Callable[[], None]) -> None:
        """Repeats a write whose answer was lost; under one fence it is the same as once."""
        for attempt in range(1, 6):
            try:
                write()
            except psycopg.OperationalError:
                if attempt == 5:
                    raise
                time.sleep(backoff_s(attempt))
                reconnect(self._context)
            else:
                return

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

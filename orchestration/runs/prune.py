"""Prunes pipelines and the store: plan, drop a little, give the lease back, until nothing is left.

It works under the leases that runs build and publish under, so neither ever meets the other halfway;
a run that waits gets its lease within seconds, and the rest is planned anew after it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import psycopg

from orchestration.faultpoints import FaultPoint, reach
from orchestration.pipelines.spec import Retention
from orchestration.publication.retention.drop import PipelineDrop
from orchestration.publication.retention.drop_store import StoreDrop
from orchestration.publication.retention.plan import (
    PipelinePlan,
    StorePlan,
    plan_pipeline,
    plan_store,
)
from orchestration.publication.retention.read import read_pipeline, read_store
from orchestration.publication.retention.report import Pruned
from orchestration.runs.leases import Heartbeat, release, try_acquire
from orchestration.runs.state import record_action
from orchestration.sql.queries import query
from orchestration.stages.base import Progress
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, build_lease
from orchestration.warehouse.sessions import Sessions
from orchestration.warehouse.store import sweep_abandoned

_WAIT_S = 60.0
_SLICE_S = 5.0
# Longer than a run that waits for the lease pauses between two tries.
_PAUSE_S = 0.6


@dataclass(frozen=True)
class WholePlan:
    """What would go: of each pipeline, and then of the store."""

    pipelines: tuple[PipelinePlan, ...]
    store: StorePlan


def plan_prune(warehouse: Warehouse, policies: Mapping[str, Retention]) -> WholePlan:
    """The plan as things stand; nothing is changed and nobody waits."""
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        plans = tuple(
            plan_pipeline(read_pipeline(connection, name), policy)
            for name, policy in policies.items()
        )
        gone = {version.version_id for plan in plans for version in plan.versions}
        return WholePlan(plans, plan_store(read_store(connection, policies), gone))


class Prune:
    """Drops what the policies no longer keep; `done` says what went, also when it ends in an error.

    Twice is the same as once, and it may be killed anywhere. What runs keep busy is left and named.
    Raises `LeaseLost`.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        policies: Mapping[str, Retention],
        progress: Progress,
        *,
        actor: str | None = None,
    ) -> None:
        self._warehouse = warehouse
        self._policies = policies
        self._progress = progress
        self._actor = actor
        self.done = Pruned()

    def run(self) -> Pruned:
        with ExitStack() as stack:
            self._sessions = Sessions(self._warehouse)
            stack.callback(self._sessions.close)
            self._heartbeat = stack.enter_context(Heartbeat(self._warehouse))
            for name, policy in self._policies.items():
                self._in_slices([name], partial(self._pipeline, name, policy))
            self._in_slices(self._all_pipelines(), self._store)
            self._forget_ended()
        return self.done

    def _all_pipelines(self) -> list[str]:
        """Whoever may build: the declared pipelines, and those that left a trace in the warehouse."""
        rows = self._sessions.get(Role.RUNNER).execute(query("retention_pipelines")).fetchall()
        return sorted({*self._policies, *(name for (name,) in rows)})

    def _forget_ended(self) -> None:
        """What is left of what went, and a line about this prune for as long as there is a warehouse."""
        runner = self._sessions.get(Role.RUNNER)
        days = max((policy.run_days for policy in self._policies.values()), default=0)
        runner.execute(query("retention_forget_ended"), [timedelta(days=days)])
        for name, policy in self._policies.items():
            runner.execute(
                query("retention_forget_versions"), [name, timedelta(days=policy.run_days)]
            )
        if not self.done.is_empty:
            what = ", ".join(self._policies)
            record_action(runner, "prune", what, "retention policy", self._actor)
        reach(FaultPoint.PRUNE_AFTER_RECORD)

    def _pipeline(self, name: str, policy: Retention, leases: Sequence[Lease]) -> Iterator[None]:
        runner = self._sessions.get(Role.RUNNER)
        self._progress.update("prune", f"looking at {name}")
        plan = plan_pipeline(read_pipeline(runner, name), policy)
        self._progress.update("prune", f"dropping what {name} no longer needs")
        drop = PipelineDrop(runner, self._sessions.get(Role.EXTRACTOR), leases[0], self.done)
        return drop.steps(plan)

    def _store(self, leases: Sequence[Lease]) -> Iterator[None]:
        runner = self._sessions.get(Role.RUNNER)
        self._progress.update("prune", "looking at the store")
        sweep_abandoned(self._sessions.get(Role.TRANSFORMER))
        plan = plan_store(read_store(runner, self._policies))
        self._progress.update("prune", f"dropping {len(plan.relations)} relations")
        return StoreDrop(runner, self._sessions.get(Role.PUBLISHER), leases, self.done).steps(plan)

    def _in_slices(
        self, pipelines: Sequence[str], begin: Callable[[Sequence[Lease]], Iterator[None]]
    ) -> None:
        """Begins under the pipelines' leases, again and again, until it comes to its end."""
        names = [build_lease(name) for name in pipelines]
        while True:
            with self._leases(names) as leases:
                if leases is None:
                    return
                reach(FaultPoint.PRUNE_AFTER_LEASE)
                if self._ends_in_time(begin(leases)):
                    return
            time.sleep(_PAUSE_S)

    def _ends_in_time(self, steps: Iterator[None]) -> bool:
        until = time.monotonic() + _SLICE_S
        for _ in steps:
            self._heartbeat.check()
            if time.monotonic() > until:
                return False
        return True

    @contextmanager
    def _leases(self, names: Sequence[str]) -> Iterator[Sequence[Lease] | None]:
        """All of the leases or, after a while, None and a note; never some while waiting for others."""
        runner = self._sessions.get(Role.RUNNER)
        deadline = time.monotonic() + _WAIT_S
        while (taken := _take_all(runner, names)) is None:
            if time.monotonic() >= deadline:
                self.done.busy += [name for name in names if name not in self.done.busy]
                yield None
                return
            self._progress.update("prune", "a run builds or publishes; waiting for it")
            time.sleep(_PAUSE_S)
        try:
            with self._heartbeat.keep(*taken):
                yield taken
        finally:
            for lease in taken:
                release(runner, lease)


def _take_all(runner: psycopg.Connection, names: Sequence[str]) -> list[Lease] | None:
    taken: list[Lease] = []
    for name in names:
        lease = try_acquire(runner, name)
        if lease is None:
            for other in taken:
                release(runner, other)
            return None
        taken.append(lease)
    return taken

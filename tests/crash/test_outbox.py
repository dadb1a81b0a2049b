"""A message is told once, whoever wrote it and whether or not its run is ever driven again."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from harness import Sluice
from sabotage import Kind, Sabotage
from warm import WarmSluice

from orchestration.faultpoints import FaultPoint
from orchestration.notifications.routes import Alerts
from orchestration.publication.rollback import rollback
from orchestration.runs.cancellation import request_cancel
from orchestration.runs.leases import release, try_acquire
from orchestration.runs.messages import deliver_left_over
from orchestration.warehouse.connections import Role
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.fence import build_lease, outbox_lease

FIRST, SECOND = "2013-01-01", "2013-01-02"
WAITING = "select kind from ops.outbox where delivered_at is null order by outbox_id"


@dataclass
class Town:
    """Runs commands of one warehouse and counts what they told to whom."""

    sluice: WarmSluice
    told: Counter[str] = field(default_factory=Counter)

    def call(self, *arguments: str, sabotage: Sabotage | None = None) -> int:
        strikes = (sabotage,) if sabotage else ()
        done = replace(self.sluice, sabotage=strikes).call(*arguments, "--json")
        for line in done.stderr.splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "notification":
                self.told[event["kind"]] += 1
        return done.returncode

    def run(self, day: str, **options: Any) -> int:
        return self.call("run", "--pipeline", "flights", "--partitions", day, **options)

    def waiting(self) -> list[str]:
        return [kind for (kind,) in self.sluice.query(WAITING)]


def left_by_a_killed_run_that_was_cancelled(town: Town, kill: Sabotage) -> None:
    """Its flip is committed; then it dies, and an operator ends it without telling anybody."""
    assert town.run(FIRST, sabotage=kill) < 0
    [(run_id,)] = town.sluice.query("select run_id from ops.runs")
    with town.sluice.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        assert request_cancel(connection, run_id, reason="drill", wait_s=60) == "cancelled"
    assert town.waiting() == ["published", "failed"]


def left_by_a_rollback(town: Town, _kill: Sabotage) -> None:
    """Whoever rolled back died after the commit; no run is concerned."""
    assert town.run(FIRST) == town.run(SECOND) == 0
    town.told.clear()
    warehouse = town.sluice.warehouse
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        lease = try_acquire(connection, build_lease("flights"))
        assert lease is not None
        rollback(warehouse, "flights", None, reason="drill", lease=lease, owner="o@example.com")
        release(connection, lease)
    assert town.waiting() == ["rolled_back"]


@pytest.fixture
def kill(sluice: WarmSluice, server: EmbeddedServer) -> Sabotage:
    return Sabotage(
        FaultPoint.PUBLISH_AFTER_FLIP, "", Kind.SIGKILL, sluice.warehouse.database,
        server.superuser_url("postgres"), str(server.home),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leave", "deliver", "expected"),
    [
        (
            left_by_a_killed_run_that_was_cancelled,
            ("recover",),
            {"published": 1, "failed": 1},
        ),
        (
            left_by_a_rollback,
            ("run", "--pipeline", "flights", "--partitions", SECOND),
            {"rolled_back": 1},
        ),
    ],
    ids=["recover", "next run"],
)
def test_what_no_run_will_tell_is_told_once_by_whoever_comes_next(
    sluice: WarmSluice,
    kill: Sabotage,
    leave: Callable[[Town, Sabotage], None],
    deliver: tuple[str, ...],
    expected: dict[str, int],
) -> None:
    town = Town(sluice)
    leave(town, kill)
    assert town.told == {}
    assert town.call(*deliver) == 0
    assert (town.told, town.waiting()) == (expected, [])
    assert town.call("recover") == town.call(*deliver) == 0
    assert town.told == expected


@pytest.mark.slow
def test_operators_tell_at_once_what_they_did(sluice: WarmSluice, kill: Sabotage) -> None:
    town = Town(sluice)
    assert town.run(FIRST, sabotage=kill) < 0
    assert town.call("cancel", "r_", "--reason", "drill") == 0
    assert (town.told, town.waiting()) == ({"published": 1, "failed": 1}, [])
    assert town.run(SECOND) == 0
    assert town.call("rollback", "--reason", "drill") == 0
    assert town.told == {"published": 2, "failed": 1, "rolled_back": 1}
    assert town.waiting() == []
    # By the login of whoever gave the command, not by the role that wrote it down.
    assert sluice.query("select action, actor from ops.operator_actions order by action_id") == [
        ("cancel", "sluice_owner"),
        ("rollback", "sluice_owner"),
    ]
    assert sluice.query("select cancel_requested_by from ops.runs order by 1 limit 1") == [
        ("sluice_owner",)
    ]
    assert sluice.query("select actor from ops.publications where kind = 'rollback'") == [
        ("sluice_owner",)
    ]


def test_what_a_living_worker_has_in_hand_is_left_to_it(sluice: Sluice) -> None:
    with sluice.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        runner.execute(
            "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, "
            "as_of, correlation_id, workflow_id, status) "
            "values ('r_x', 'flights', 'manual', 'k', 'c', '{}', now(), 'c', 'w', 'running')"
        )
        runner.execute(
            "insert into ops.outbox (dedup_key, pipeline, run_id, kind, owner, payload) "
            "values ('k', 'flights', 'r_x', 'published', 'o@example.com', '{}')"
        )
        lease = try_acquire(runner, "run/r_x")
        assert lease is not None
        deliver_left_over(sluice.warehouse, Alerts())
        assert len(sluice.query(WAITING)) == 1
        release(runner, lease)
        other = try_acquire(runner, outbox_lease("flights"))
        assert other is not None
        deliver_left_over(sluice.warehouse, Alerts())
        assert len(sluice.query(WAITING)) == 1, "another process was delivering"
        release(runner, other)
        deliver_left_over(sluice.warehouse, Alerts())
        assert sluice.query(WAITING) == []


def test_a_message_that_cannot_be_told_stays_and_fails_nobody(
    sluice: Sluice, tmp_path: Path
) -> None:
    with sluice.warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "insert into ops.outbox (dedup_key, pipeline, kind, owner, payload) "
            "values ('k', 'flights', 'rolled_back', 'o@example.com', '{}')"
        )
        owner.execute("revoke update (delivered_at) on ops.outbox from sluice_runner")
        deliver_left_over(sluice.warehouse, Alerts())
        owner.execute("grant update (delivered_at) on ops.outbox to sluice_runner")
    assert len(sluice.query(WAITING)) == 1
    assert sluice.query("select name from ops.leases where expires_at > clock_timestamp()") == []

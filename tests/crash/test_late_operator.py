"""What operators ask for is written under the run's lease, or not at all."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestration.errors import Cancelled, LeaseLost
from orchestration.identity import RunId
from orchestration.model import Outcome, StageName
from orchestration.pipelines.files import get_pipeline
from orchestration.runs import recovery, replay
from orchestration.runs.cancellation import request_cancel, settle_cancelled, take_back_cancel
from orchestration.runs.leases import release, try_acquire
from orchestration.runs.messages import failure_of, tell_end, tell_owner
from orchestration.runs.state import get_run, start_run, start_stage
from orchestration.settings import Settings
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, run_lease

PIPELINE = get_pipeline(Settings().pipelines_dir, "flights")
RUN, NEXT = RunId("r_" + "0" * 16), RunId("r_" + "1" * 16)


@pytest.fixture
def lease(warehouse: Warehouse) -> Lease:
    """The lease of a run that somebody asked to cancel, and its worker is in extract."""
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        for run in (RUN, NEXT):
            runner.execute(
                "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, "
                "as_of, correlation_id, workflow_id, owner) "
                "values (%s, 'flights', 'manual', 'k', %s, %s, now(), 'c', 'w', 'o@example.com')",
                [run, run, Jsonb({})],
            )
        lease = try_acquire(runner, run_lease(RUN))
        assert lease is not None
        start_run(runner, RUN, lease)
        start_stage(runner, RUN, StageName.EXTRACT, 1, lease)
        assert request_cancel(runner, RUN, reason="drill", wait_s=0) == "requested"
    return lease


def take_over(warehouse: Warehouse, lease: Lease) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "update ops.leases set fence = nextval('ops.fence') where name = %s", [lease.name]
        )


def rows(warehouse: Warehouse) -> list[object]:
    with warehouse.connect() as owner:
        return [
            owner.execute(f"select t::text from ops.{table} t order by 1".encode()).fetchall()
            for table in ("runs", "run_stages", "outbox", "operator_actions", "checkpoints")
        ]


WRITES: dict[str, Callable[[psycopg.Connection, Lease], object]] = {
    "settle_cancelled": lambda c, lease: settle_cancelled(c, RUN, lease),
    "take_back_cancel": lambda c, lease: take_back_cancel(
        c, RUN, lease, datetime(2100, 1, 1, tzinfo=UTC)
    ),
    "tell_owner": lambda c, lease: tell_owner(
        c, RUN, lease, Outcome.FAILED, failure_of(Cancelled(RUN), StageName.EXTRACT)
    ),
    "tell_end": lambda c, lease: tell_end(
        c,
        PIPELINE,
        get_run(c, RUN),
        lease,
        Outcome.DEGRADED,
        None,
        ["flights.weather/2013-01-01@1"],
    ),
    "supersede": lambda c, lease: recovery.supersede(c, get_run(c, RUN), NEXT, lease),
    "supersede_ended": lambda c, lease: recovery.supersede(
        c, replace(get_run(c, RUN), status="failed"), NEXT, lease
    ),
    "begin_recovery": lambda c, _: recovery.begin_recovery(c, NEXT),
    "prepare_replay": lambda c, _: replay.prepare_replay(
        c, get_run(c, RUN), StageName.EXTRACT, reason="drill"
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_an_operator_who_lost_the_lease_changes_nothing(
    warehouse: Warehouse, lease: Lease, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_over(warehouse, lease)
    for module in (recovery, replay):
        monkeypatch.setattr(module, "try_acquire", lambda *_: lease)
    before = rows(warehouse)
    with (
        warehouse.connect(Role.RUNNER, autocommit=True) as connection,
        pytest.raises(LeaseLost, match="another worker"),
    ):
        WRITES[write](connection, lease)
    assert rows(warehouse) == before


@pytest.mark.parametrize("write", [name for name in WRITES if name != "begin_recovery"])
def test_under_the_lease_the_same_is_written(
    warehouse: Warehouse, lease: Lease, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "try_acquire", lambda *_: lease)
    before = rows(warehouse)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        WRITES[write](connection, lease)
    assert rows(warehouse) != before


def test_a_request_made_while_somebody_waits_for_the_run_stands(
    warehouse: Warehouse, lease: Lease
) -> None:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        with pytest.raises(Cancelled):
            take_back_cancel(connection, RUN, lease, datetime(2000, 1, 1, tzinfo=UTC))
        release(connection, lease)
        assert recovery.begin_recovery(connection, RUN) is recovery.Decision.CANCEL
        assert get_run(connection, RUN).status == "cancelled"
        assert request_cancel(connection, RUN, reason="again", wait_s=0) == "ended"

"""A run's lease goes from whoever stands by to a worker and back, and to nobody else."""

from collections.abc import Iterator

import psycopg
import pytest
from late_work import RUN, begin_work, expire

from orchestration.errors import Busy, LeaseLost
from orchestration.model import StageName, StageStatus
from orchestration.runs import leases
from orchestration.runs.leases import acquire, holder_name, release, take_over, try_acquire
from orchestration.runs.recovery import find_interrupted
from orchestration.runs.standby import Standby
from orchestration.runs.state import note_stage, start_stage
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, assert_fence, run_lease

# A process that nobody here can tell to be dead.
ELSEWHERE = "elsewhere|1|1"
WORKER = "worker|1|1"
NAME = run_lease(RUN)


@pytest.fixture
def runner(warehouse: Warehouse) -> Iterator[psycopg.Connection]:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        yield connection


def held_by(holder: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> Lease:
    """The run's lease in the hands of `holder`, from whom this process has it if it is free."""
    with monkeypatch.context() as patch:
        patch.setattr(leases, "holder_name", lambda: holder)
        lease = take_over(connection, NAME, holder_name())
    assert lease is not None
    return lease


def test_a_lease_is_taken_over_from_the_one_who_gives_it_and_from_nobody_else(
    runner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = held_by(ELSEWHERE, runner, monkeypatch)
    assert take_over(runner, NAME, WORKER) is None
    assert_fence(runner, given)
    with pytest.raises(Busy):
        acquire(runner, NAME, wait_s=0, giver=WORKER)
    taken = acquire(runner, NAME, wait_s=0, giver=ELSEWHERE)
    assert taken.fence > given.fence
    with pytest.raises(LeaseLost):
        assert_fence(runner, given)


def test_who_stands_by_has_the_lease_whenever_no_worker_has(
    warehouse: Warehouse, runner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_work(warehouse)
    lease = try_acquire(runner, NAME)
    assert lease is not None
    with Standby(warehouse, lease) as standby:
        assert standby.giver == holder_name()
        assert_fence(runner, lease)
        for _ in range(2):
            worker = held_by(WORKER, runner, monkeypatch)
            standby.take_up()
            assert_fence(runner, worker)
            release(runner, worker)
            standby.take_up()
            assert try_acquire(runner, NAME) is None
            assert find_interrupted(runner) == []
        # A worker that died: its lease runs out, and the run is not abandoned.
        held_by(WORKER, runner, monkeypatch)
        expire(warehouse, NAME)
        assert [item.run_id for item in find_interrupted(runner)] == [RUN]
        standby.take_up()
        assert find_interrupted(runner) == []
    assert try_acquire(runner, NAME) is not None


def test_a_stage_that_several_processes_share_began_with_the_first_and_is_noted_once(
    warehouse: Warehouse, runner: psycopg.Connection
) -> None:
    lease = begin_work(warehouse)

    def row() -> tuple[object, ...] | None:
        return runner.execute(
            "select status, started_at, finished_at, output_ref from ops.run_stages "
            "where run_id = %s and stage = 'transform'",
            [RUN],
        ).fetchone()

    start_stage(runner, RUN, StageName.TRANSFORM, 3, lease, goes_on=True)
    handed_on = row()
    start_stage(runner, RUN, StageName.TRANSFORM, 3, lease, goes_on=True)
    assert row() == handed_on
    start_stage(runner, RUN, StageName.TRANSFORM, 3, lease)
    assert row() != handed_on
    note_stage(runner, RUN, StageName.TRANSFORM, 3, lease, StageStatus.SUCCEEDED, output_ref="v")
    noted = row()
    assert noted is not None
    assert (noted[0], noted[3]) == ("succeeded", "v")
    note_stage(runner, RUN, StageName.TRANSFORM, 3, lease, StageStatus.REUSED, output_ref="w")
    assert row() == noted

"""Beginning and ending units: one transaction each, once each, whatever is repeated or contended."""

import threading
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from orchestration.errors import LeaseLost
from orchestration.model import StageName
from orchestration.runs.checkpoints import (
    Claimed,
    begin_attempts,
    claim_units,
    read_checkpoints,
    record_success,
)
from orchestration.runs.leases import release, try_acquire
from orchestration.stages.base import Unit
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.sessions import Sessions

RUN = "r_0123456789abcdef"
UNITS = [
    Unit(
        "flights", StageName.EXTRACT, f"flights.weather/2013-01-{day:02}@1", f"lease/{day:02}", "i"
    )
    for day in range(1, 13)
]
UNIT = UNITS[0]


@pytest.fixture
def runner(warehouse: Warehouse) -> Iterator[psycopg.Connection]:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        yield connection


def claim(runner: psycopg.Connection, unit: Unit = UNIT) -> Lease:
    [claimed] = claim_units(runner, RUN, [unit])
    assert claimed.attempt is not None
    return claimed.lease


def history(runner: psycopg.Connection, unit: Unit = UNIT) -> list[tuple[int, str]]:
    return runner.execute(
        "select attempt, status from ops.attempts where idempotency_key = %s order by 1", [unit.key]
    ).fetchall()


def free(runner: psycopg.Connection, name: str) -> bool:
    lease = try_acquire(runner, name)
    if lease is not None:
        release(runner, lease)
    return lease is not None


def test_a_claim_begins_an_attempt_that_nobody_else_can_begin(runner: psycopg.Connection) -> None:
    [claimed] = claim_units(runner, RUN, [UNIT])
    assert claimed.attempt == 1
    assert claim_units(runner, RUN, [UNIT]) == []
    assert read_checkpoints(runner, [UNIT])[UNIT].fence == claimed.lease.fence
    assert history(runner) == [(1, "running")]


def test_workers_who_want_the_same_units_in_any_order_begin_each_once(
    warehouse: Warehouse,
) -> None:
    won: list[Claimed] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            start.wait()
            won.extend(claim_units(connection, RUN, UNITS[number:] + UNITS[:number]))

    threads = [threading.Thread(target=work, args=[number * 3]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(claimed.unit.lease_name for claimed in won) == [u.lease_name for u in UNITS]
    assert {claimed.attempt for claimed in won} == {1}


def test_a_unit_that_was_finished_meanwhile_is_claimed_but_not_begun(
    runner: psycopg.Connection,
) -> None:
    record_success(
        runner, UNIT, claim(runner), output_ref="a", checksum="1", result={}, give_back=True
    )
    [claimed] = claim_units(runner, "r_another", [UNIT])
    assert claimed.attempt is None
    assert read_checkpoints(runner, [UNIT])[UNIT].run_id == RUN
    assert begin_attempts(runner, "r_another", [(UNIT, claimed.lease)]) == {UNIT: 2}
    assert read_checkpoints(runner, [UNIT])[UNIT].output_ref is None
    assert history(runner) == [(1, "succeeded"), (2, "running")]


def test_what_a_dead_worker_left_is_taken_over_and_its_attempt_is_lost(
    warehouse: Warehouse, runner: psycopg.Connection
) -> None:
    claim(runner)
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "update ops.leases set holder = regexp_replace(holder, '[|]\\d+[|].*', '|999999|gone')"
        )
    [claimed] = claim_units(runner, "r_another", [UNIT])
    assert claimed.attempt == 2
    assert history(runner) == [(1, "lost"), (2, "running")]


def test_a_success_gives_the_lease_back_only_when_asked(runner: psycopg.Connection) -> None:
    lease = claim(runner)
    done = record_success(runner, UNIT, lease, output_ref="a", checksum=None, result={"rows": 1})
    assert (done.succeeded, done.output_ref, done.result) == (True, "a", {"rows": 1})
    assert not free(runner, UNIT.lease_name)
    other = UNITS[1]
    record_success(
        runner,
        other,
        claim(runner, other),
        output_ref="b",
        checksum=None,
        result={},
        give_back=True,
    )
    assert free(runner, other.lease_name)


def test_a_success_whose_answer_was_lost_may_be_repeated_after_the_lease_went(
    runner: psycopg.Connection,
) -> None:
    lease = claim(runner)
    first = record_success(
        runner, UNIT, lease, output_ref="a", checksum="1", result={}, give_back=True
    )
    assert try_acquire(runner, UNIT.lease_name) is not None
    again = record_success(
        runner, UNIT, lease, output_ref="a", checksum="1", result={}, give_back=True
    )
    assert again == first
    assert not free(runner, UNIT.lease_name), "the other worker's lease was released"
    with pytest.raises(LeaseLost):
        record_success(runner, UNIT, lease, output_ref="b", checksum="1", result={})
    assert read_checkpoints(runner, [UNIT])[UNIT] == first
    assert history(runner) == [(1, "succeeded")]


def test_a_success_of_an_attempt_that_was_not_begun_under_this_fence_is_refused(
    runner: psycopg.Connection,
) -> None:
    lease = claim(runner)
    release(runner, lease)
    alive = try_acquire(runner, UNIT.lease_name)
    assert alive is not None
    with pytest.raises(LeaseLost):
        record_success(runner, UNIT, alive, output_ref="a", checksum="1", result={})
    assert read_checkpoints(runner, [UNIT])[UNIT].status == "running"


def test_one_lost_lease_keeps_every_unit_from_beginning(
    warehouse: Warehouse, runner: psycopg.Connection
) -> None:
    leases = [(unit, try_acquire(runner, unit.lease_name)) for unit in UNITS[:3]]
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "update ops.leases set expires_at = clock_timestamp() where name = %s",
            [UNITS[2].lease_name],
        )
    with pytest.raises(LeaseLost, match=UNITS[2].lease_name):
        begin_attempts(runner, RUN, [(unit, lease) for unit, lease in leases if lease])
    assert read_checkpoints(runner, UNITS) == {}


def test_steps_of_one_unit_share_its_lease(runner: psycopg.Connection) -> None:
    lease = claim(runner)
    step = replace(UNIT, step="fetch")
    assert begin_attempts(runner, RUN, [(step, lease)]) == {step: 1}
    record_success(runner, step, lease, output_ref="s", checksum=None, result={})
    assert set(read_checkpoints(runner, [UNIT, step])) == {UNIT, step}


def test_only_the_runner_may_begin_and_end_units(warehouse: Warehouse) -> None:
    for role in set(Role) - {Role.RUNNER}:
        with (
            warehouse.connect(role, autocommit=True) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            claim_units(connection, RUN, [UNIT])


def test_a_session_that_was_cut_is_replaced_before_it_is_used(warehouse: Warehouse) -> None:
    sessions = Sessions(warehouse)
    first = sessions.get(Role.EXTRACTOR)
    assert sessions.get(Role.EXTRACTOR) is first
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("select pg_terminate_backend(%s, 5000)", [first.info.backend_pid])
    second = sessions.get(Role.EXTRACTOR)
    assert second is not first
    assert second.execute("select 1").fetchone() == (1,)
    sessions.close()
    assert second.closed

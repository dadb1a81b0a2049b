"""What leases refuse by themselves, and what belongs to an attempt under an earlier fence."""

import time
from collections.abc import Callable

import psycopg
import pytest
from late_work import FETCHED, RELATION, RUN, UNIT, begin_work, everything, expire, hand_over

from ingestion.sources import get_resource
from orchestration.errors import DestinationFailure, LeaseLost, SourceFailure, TransformFailure
from orchestration.identity import ArtifactId
from orchestration.runs.checkpoints import begin_attempts, record_failure, record_success
from orchestration.runs.leases import extend, release, try_acquire
from orchestration.warehouse import artifacts, store
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, assert_fence


def runner(warehouse: Warehouse) -> psycopg.Connection:
    return warehouse.connect(Role.RUNNER, autocommit=True)


def lease_row(warehouse: Warehouse, name: str) -> tuple[object, ...] | None:
    with warehouse.connect() as owner:
        return owner.execute("select * from ops.leases where name = %s", [name]).fetchone()


def elsewhere(connection: psycopg.Connection, *, ttl: str = "1 minute") -> Lease:
    """The lease `thing` in the hands of a worker on another machine."""
    row = connection.execute(
        "select ops.acquire_lease('thing', 'elsewhere|1|1', %s::interval)", [ttl]
    ).fetchone()
    assert row is not None
    return Lease("thing", row[0])


def test_a_lease_that_is_alive_is_not_taken(warehouse: Warehouse) -> None:
    with runner(warehouse) as connection:
        elsewhere(connection)
        assert try_acquire(connection, "thing") is None


def test_a_lease_that_ran_out_is_lost_even_when_nobody_took_it(warehouse: Warehouse) -> None:
    with runner(warehouse) as connection:
        lease = elsewhere(connection)
        assert_fence(connection, lease)
        expire(warehouse, "thing")
        with pytest.raises(LeaseLost):
            assert_fence(connection, lease)
        assert not extend(connection, lease)


def test_a_lease_does_not_change_hands_inside_a_fenced_transaction(warehouse: Warehouse) -> None:
    with runner(warehouse) as writer, runner(warehouse) as other:
        lease = elsewhere(writer, ttl="1 s")
        with writer.transaction():
            assert_fence(writer, lease)
            time.sleep(1.1)
            other.execute("set lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                try_acquire(other, "thing")
        successor = try_acquire(other, "thing")
    assert successor is not None
    assert successor.fence > lease.fence


@pytest.mark.parametrize("act", [extend, release])
def test_a_late_worker_neither_extends_nor_gives_back_the_lease_of_its_successor(
    warehouse: Warehouse, act: Callable[[psycopg.Connection, Lease], object]
) -> None:
    with runner(warehouse) as connection:
        late = elsewhere(connection)
        expire(warehouse, "thing")
        assert try_acquire(connection, "thing") is not None
        before = lease_row(warehouse, "thing")
        assert not act(connection, late)
    assert lease_row(warehouse, "thing") == before


def test_a_failure_is_not_written_over_an_attempt_under_another_fence(
    warehouse: Warehouse,
) -> None:
    successor = hand_over(warehouse, begin_work(warehouse))
    before = everything(warehouse)
    with runner(warehouse) as connection:
        record_failure(connection, UNIT, successor, SourceFailure("away", code="away"))
    assert everything(warehouse) == before


def test_a_late_worker_is_not_told_that_its_successors_success_is_its_own(
    warehouse: Warehouse,
) -> None:
    late = begin_work(warehouse)
    successor = hand_over(warehouse, late)
    with runner(warehouse) as connection:
        begin_attempts(connection, RUN, [(UNIT, successor)])
        record_success(connection, UNIT, successor, output_ref="a", checksum="1", result={})
        with pytest.raises(LeaseLost):
            record_success(connection, UNIT, late, output_ref="a", checksum="1", result={})


def test_rows_that_were_loaded_under_another_fence_are_not_adopted(warehouse: Warehouse) -> None:
    successor = hand_over(warehouse, begin_work(warehouse))
    before = everything(warehouse)
    with (
        warehouse.connect(Role.EXTRACTOR, autocommit=True) as connection,
        pytest.raises(DestinationFailure) as raised,
    ):
        artifacts.adopt_artifact(
            connection,
            ArtifactId("a_late"),
            get_resource("flights.airlines"),
            FETCHED,
            successor,
            keep_rejected=lambda: 0,
        )
    assert raised.value.code == "artifact_abandoned"
    assert everything(warehouse) == before


def test_a_relation_that_was_built_under_another_fence_is_not_adopted(
    warehouse: Warehouse,
) -> None:
    successor = hand_over(warehouse, begin_work(warehouse))
    before = everything(warehouse)
    with (
        warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection,
        pytest.raises(TransformFailure) as raised,
    ):
        store.adopt_relations(connection, [RELATION], successor)
    assert raised.value.code == "relation_abandoned"
    assert everything(warehouse) == before


def test_what_a_living_worker_loads_and_builds_is_not_swept(warehouse: Warehouse) -> None:
    begin_work(warehouse)
    before = everything(warehouse)
    assert sweep(warehouse) == (0, [])
    assert everything(warehouse) == before


def test_what_was_loaded_and_built_under_an_earlier_fence_is_swept(warehouse: Warehouse) -> None:
    hand_over(warehouse, begin_work(warehouse))
    assert sweep(warehouse) == (1, [RELATION.relation_name])


def sweep(warehouse: Warehouse) -> tuple[int, list[str]]:
    """(staged rows that went, relations that went)."""
    with (
        warehouse.connect(Role.EXTRACTOR, autocommit=True) as extractor,
        warehouse.connect(Role.TRANSFORMER, autocommit=True) as transformer,
    ):
        return artifacts.sweep_orphans(extractor, "flights"), store.sweep_abandoned(transformer)

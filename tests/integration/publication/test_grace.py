import re
import time
from typing import Any

import psycopg
import pytest

from orchestration.errors import DestinationFailure
from orchestration.publication.grace import Patience
from orchestration.warehouse.connections import Role, Warehouse


@pytest.fixture
def third(flights: Any) -> Any:
    """A version to publish into a slot that was active until just now."""
    for number in (1, 2):
        flights.publish(flights.build({"fct": f"select {number} as number"}))
    return flights.build({"fct": "select 3 as number"})


def stopped(flights: Any, version: Any, patience: Patience) -> DestinationFailure:
    began = time.monotonic()
    with pytest.raises(DestinationFailure) as caught:
        flights.publish(version, patience)
    assert time.monotonic() - began < patience.wait_s + 3
    assert (caught.value.code, caught.value.transient) == ("long_reader", True)
    return caught.value


def test_a_reader_in_a_transaction_stops_the_publication_and_is_named(
    flights: Any, third: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set application_name = 'a notebook'")
        reader.execute("select number as secret from analytics.fct")
        failure = stopped(flights, third, impatient)
        assert f"pid {reader.info.backend_pid}, user sluice_analyst" in failure.message
        assert "application 'a notebook', since 20" in failure.message
        assert "secret" not in failure.message
        assert flights.read("select number from analytics.fct") == [(2,)]
    assert flights.publish(third, impatient).outcome == "published"


def test_an_old_snapshot_that_has_not_read_yet_is_waited_for(
    flights: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    flights.publish(flights.build({"fct": "select 1 as number"}))
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select 1")
        flights.publish(flights.build({"fct": "select 2 as number"}))
        version = flights.build({"fct": "select 3 as number"})
        failure = stopped(flights, version, impatient)
        assert f"pid {reader.info.backend_pid}" in failure.message
        assert reader.execute("select number from analytics.fct").fetchone() == (1,)
    assert flights.publish(version, impatient).outcome == "published"


def test_a_snapshot_that_sees_the_last_flip_is_not_waited_for(
    flights: Any, third: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select 1")
        assert flights.publish(third, impatient).outcome == "published"
        assert reader.execute("select number from analytics.fct").fetchone() == (2,)


def test_an_open_writer_is_named_as_the_cause_of_old_looking_readers(
    flights: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    flights.publish(flights.build({"fct": "select 1 as number"}))
    with warehouse.connect() as writer, warehouse.connect(Role.ANALYST) as reader:
        writer.execute("create table public.unrelated (a int)")
        flights.publish(flights.build({"fct": "select 2 as number"}))
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select 1")
        version = flights.build({"fct": "select 3 as number"})
        failure = stopped(flights, version, impatient)
        assert f": pid {writer.info.backend_pid}, user sluice_owner" in failure.message
    assert flights.publish(version).outcome == "published"


def test_a_session_of_another_database_is_not_waited_for(
    flights: Any, third: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    elsewhere = re.sub(r"/publication_\d+\?", "/postgres?", warehouse.owner_url)
    with psycopg.connect(elsewhere) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select 1")
        assert flights.publish(third, impatient).outcome == "published"


def test_nothing_is_waited_for_when_no_view_changes(
    flights: Any, third: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("select number from analytics.fct")
        assert flights.rollback().outcome == "published"


def test_a_publisher_that_cannot_see_sessions_refuses_to_guess(
    flights: Any, third: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("revoke pg_read_all_stats from sluice_publisher")
        try:
            with pytest.raises(Exception, match="grant pg_read_all_stats to sluice_publisher"):
                flights.publish(third, impatient)
        finally:
            owner.execute("grant pg_read_all_stats to sluice_publisher")


def test_readers_queue_behind_a_publication_for_no_longer_than_its_lock_timeout(
    flights: Any, third: Any, warehouse: Warehouse, impatient: Patience
) -> None:
    with warehouse.connect(Role.ANALYST) as holder:
        holder.execute("select number from analytics.fct")
        stopped(flights, third, impatient)
        began = time.monotonic()
        assert flights.read("select number from analytics.fct") == [(2,)]
        assert time.monotonic() - began < 1

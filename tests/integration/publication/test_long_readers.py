"""Who is waited for, who is ended when the policy says so, and who is never touched."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from orchestration.errors import ConfigurationError, DestinationFailure
from orchestration.publication.grace import Patience
from orchestration.warehouse.connections import Role, Warehouse

ENDING = Patience(wait_s=0.3, end_readers=True)


@pytest.fixture
def third(flights: Any) -> Any:
    """A version to publish into a slot that was active until just now."""
    for number in (1, 2):
        flights.publish(flights.build({"fct": f"select {number} as number"}))
    return flights.build({"fct": "select 3 as number"})


@pytest.fixture
def pinned(third: Any, warehouse: Warehouse) -> str:
    """A schema of views over one version, as a pinned one has."""
    with warehouse.connect(autocommit=True) as owner:
        relation = owner.execute(
            "select relation_name from ops.version_models where relation_name in "
            "(select relation_name from ops.slot_views where slot = 'a')"
        ).fetchone()
        assert relation is not None
        owner.execute("create schema v_0123456789abcdef")
        owner.execute(
            f"create view v_0123456789abcdef.fct as select * from store.{relation[0]}".encode()
        )
        owner.execute("grant usage on schema v_0123456789abcdef to sluice_analyst")
        owner.execute("grant select on v_0123456789abcdef.fct to sluice_analyst")
    return "v_0123456789abcdef"


@pytest.fixture
def old_snapshot(warehouse: Warehouse) -> Iterator[psycopg.Connection]:
    """Opened before the second publication, so that it sees the slot that comes next as active."""
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select 1")
        yield reader


def test_a_reader_is_ended_when_the_policy_says_so_and_that_is_kept(
    flights: Any, third: Any, warehouse: Warehouse
) -> None:
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set application_name = 'a notebook'")
        reader.execute("select number from analytics.fct")
        pid = reader.info.backend_pid
        assert flights.publish(third, ENDING).outcome == "published"
        with pytest.raises(psycopg.OperationalError):
            reader.execute("select 1")
    with warehouse.connect() as owner:
        assert owner.execute(
            "select target, reason, actor from ops.operator_actions where action = 'end_reader'"
        ).fetchall() == [
            (
                f"pid {pid}, user sluice_analyst, application 'a notebook'",
                "kept a publication waiting for more than 0.3 s",
                "sluice_publisher",
            )
        ]


def test_an_old_snapshot_is_ended_too(
    flights: Any, warehouse: Warehouse, old_snapshot: psycopg.Connection
) -> None:
    for number in (1, 2):
        flights.publish(flights.build({"fct": f"select {number} as number"}), ENDING)
    with pytest.raises(psycopg.OperationalError):
        old_snapshot.execute("select 1")


@pytest.mark.parametrize("role", [Role.TRANSFORMER, Role.GATE, None], ids=str)
def test_sluices_own_sessions_and_the_owners_are_never_ended(
    flights: Any, third: Any, warehouse: Warehouse, role: Role | None
) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("grant usage on schema analytics to sluice_transformer, sluice_gate")
        owner.execute("grant select on analytics.fct to sluice_transformer, sluice_gate")
    with warehouse.connect(role) as worker:
        worker.execute("select number from analytics.fct")
        with pytest.raises(DestinationFailure) as caught:
            flights.publish(third, ENDING)
        assert caught.value.code == "long_reader"
        assert f"pid {worker.info.backend_pid}" in caught.value.message
        assert worker.execute("select number from analytics.fct").fetchone() == (2,)


def test_without_the_right_to_end_sessions_the_policy_is_a_mistake(
    flights: Any, third: Any, warehouse: Warehouse, server: Any
) -> None:
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as superuser:
        superuser.execute("create role a_stranger login in role sluice_reader")
        superuser.execute("revoke pg_signal_backend from sluice_owner")
        url = warehouse.owner_url.replace("sluice_owner", "a_stranger")
        try:
            with psycopg.connect(url) as reader:
                reader.execute("select number from analytics.fct")
                with pytest.raises(ConfigurationError, match="grant it pg_signal_backend"):
                    flights.publish(third, ENDING)
                assert reader.execute("select number from analytics.fct").fetchone() == (2,)
        finally:
            superuser.execute("grant pg_signal_backend to sluice_owner with admin true")
            superuser.execute("drop role a_stranger")


def test_whoever_reads_a_version_in_its_own_schema_keeps_nobody_waiting(
    flights: Any, third: Any, pinned: str, warehouse: Warehouse, impatient: Patience
) -> None:
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set transaction isolation level repeatable read")
        assert reader.execute(f"select number from {pinned}.fct".encode()).fetchone() == (1,)
        flights.publish(third, impatient)
        for number in (4, 5):
            flights.publish(flights.build({"fct": f"select {number} as number"}), impatient)
        assert reader.execute(f"select number from {pinned}.fct".encode()).fetchone() == (1,)
        # It was not waited for, so what is published refuses it rather than show anything wrong.
        with pytest.raises(psycopg.errors.SerializationFailure):
            reader.execute("select number from analytics.fct")


def test_one_that_has_read_what_is_published_as_well_is_waited_for(
    flights: Any, third: Any, pinned: str, warehouse: Warehouse, impatient: Patience
) -> None:
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute(f"select number from {pinned}.fct".encode())
        flights.publish(third, impatient)
        fourth = flights.build({"fct": "select 4 as number"})
        assert reader.execute("select number from analytics.fct").fetchone() == (2,)
        with pytest.raises(DestinationFailure) as caught:
            flights.publish(fourth, impatient)
        assert f"pid {reader.info.backend_pid}" in caught.value.message
        assert reader.execute("select number from analytics.fct").fetchone() == (2,)

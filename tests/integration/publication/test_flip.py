import threading
from typing import Any

import psycopg
import pytest

from orchestration.errors import (
    Busy,
    ConfigurationError,
    DestinationFailure,
    LeaseLost,
    QualityFailure,
)
from orchestration.identity import RunId, VersionId
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease


def one(number: int) -> dict[str, str]:
    return {"fct": f"select {number} as number", "dim": "select 'x'::text as name"}


def test_readers_see_the_published_version_and_its_columns(flights: Any) -> None:
    first = flights.publish(flights.build(one(1)))
    assert (first.outcome, first.slot, first.previous) == ("published", "a", None)
    second = flights.publish(flights.build(one(2)))
    assert (second.outcome, second.slot, second.previous) == ("published", "b", first.version_id)
    assert flights.read("select * from analytics.fct") == [(2,)]
    assert flights.read("select * from analytics.dim") == [("x",)]


def test_every_reader_role_can_read_what_is_published(flights: Any, warehouse: Warehouse) -> None:
    flights.publish(flights.build(one(1)))
    for role in (Role.ANALYST, Role.REVIEWER):
        with warehouse.connect(role) as connection:
            assert connection.execute("select number from analytics.fct").fetchone() == (1,)
    with warehouse.connect() as owner:
        owner.execute("set role sluice_reader")
        assert owner.execute("select number from analytics.fct").fetchone() == (1,)


def test_only_views_whose_relation_changed_are_replaced(flights: Any) -> None:
    for number in (1, 2, 3):
        flights.publish(flights.build(one(number)))
    prepared = flights.prepare(flights.build(one(4)))
    assert prepared.replaced == ("fct",)
    assert prepared.created == ()


def test_publishing_what_is_published_changes_nothing(flights: Any, warehouse: Warehouse) -> None:
    version = flights.build(one(1))
    first = flights.publish(version)
    again = flights.publish(version)
    assert (again.outcome, again.publication_id) == ("unchanged", first.publication_id)
    with warehouse.connect() as owner:
        assert owner.execute("select count(*) from ops.publications").fetchone() == (1,)


def test_a_repeated_request_learns_that_it_was_its_own_flip(flights: Any) -> None:
    version = flights.build(one(1))
    flights.prepare(version)
    flights.flip(version, run_id=RunId("r_1"))
    assert flights.flip(version, run_id=RunId("r_1")).run_id == "r_1"


def test_a_moved_version_stops_the_flip(flights: Any) -> None:
    flights.publish(flights.build(one(1)))
    late = flights.build(one(2))
    flights.prepare(late)
    with pytest.raises(Busy) as caught:
        flights.flip(late, expected_current=VersionId("v_other"))
    assert caught.value.code == "version_moved"
    assert flights.read("select number from analytics.fct") == [(1,)]


def test_a_late_publisher_changes_nothing(flights: Any) -> None:
    flights.publish(flights.build(one(1)))
    version = flights.build(one(2))
    lease = flights.lease
    flights.lease = Lease(lease.name, lease.fence - 1)
    with pytest.raises(LeaseLost):
        flights.prepare(version)
    flights.lease = lease
    flights.prepare(version)
    flights.lease = Lease(lease.name, lease.fence - 1)
    with pytest.raises(LeaseLost):
        flights.flip(version)
    assert flights.read("select number from analytics.fct") == [(1,)]


def test_one_transaction_writes_pointer_publication_message_and_states(
    flights: Any, warehouse: Warehouse
) -> None:
    old, new = flights.build(one(1)), flights.build(one(2))
    flights.publish(old)
    flights.prepare(new)
    seen: list[Any] = []

    def look() -> None:
        seen.append(flights.read("select number from analytics.fct"))

    publication = flights.flip(new, run_id=RunId("r_1"), before_commit=look)
    assert seen == [[(1,)]]
    with warehouse.connect() as owner:
        states = dict(owner.execute("select version_id, state from ops.versions").fetchall())
        assert states == {old: "retired", new: "published"}
        assert owner.execute(
            "select dedup_key, kind, owner, payload->>'version_id', "
            "payload->>'previous_version_id' from ops.outbox order by outbox_id desc limit 1"
        ).fetchone() == (
            f"published:{publication.publication_id}", "published", "owner@example.org", new, old
        )  # fmt: skip
        assert owner.execute(
            "select p.publication_id = b.publication_id and b.run_id = 'r_1' and p.version_id = %s "
            "from ops.publication_pointer p join ops.publications b using (publication_id)",
            [new],
        ).fetchone() == (True,)


def test_a_death_before_the_commit_leaves_everything_as_it_was(
    flights: Any, warehouse: Warehouse
) -> None:
    flights.publish(flights.build(one(1)))
    version = flights.build(one(2))
    flights.prepare(version)

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flights.flip(version, before_commit=die)
    assert flights.read("select number from analytics.fct") == [(1,)]
    assert flights.flip(version).outcome == "published"


def test_a_connection_that_breaks_before_the_commit_is_found_out(
    flights: Any, warehouse: Warehouse
) -> None:
    version = flights.build(one(1))
    flights.prepare(version)

    def cut() -> None:
        with warehouse.connect() as owner:
            owner.execute("set role sluice_publisher")
            owner.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
                "where usename = 'sluice_publisher' and datname = current_database()"
            )

    with pytest.raises(DestinationFailure) as caught:
        flights.flip(version, before_commit=cut)
    assert (caught.value.code, caught.value.transient) == ("commit_unknown", True)
    assert "nothing was published" in caught.value.message
    assert flights.flip(version).outcome == "published"


def test_a_commit_whose_answer_was_lost_counts_as_published(
    flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = flights.build(one(1))
    flights.prepare(version)
    commit = psycopg.Connection.commit
    lost: list[bool] = []

    def lose_the_answer(connection: psycopg.Connection) -> None:
        commit(connection)
        if not lost and connection.info.user == Role.PUBLISHER:
            lost.append(True)
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "commit", lose_the_answer)
        publication = flights.flip(version)
    assert lost
    assert publication.outcome == "published"
    assert flights.published() == version


def test_what_did_not_pass_is_not_published(flights: Any) -> None:
    for number, state in enumerate(("candidate", "held", "rejected")):
        version = flights.build(one(number), state=state)
        flights.prepare(version)
        with pytest.raises(QualityFailure) as caught:
            flights.flip(version)
        assert caught.value.code == "not_passed"
    assert flights.published() is None


def test_an_unprepared_slot_stops_the_flip(flights: Any) -> None:
    flights.publish(flights.build(one(1)))
    with pytest.raises(DestinationFailure) as caught:
        flights.flip(flights.build(one(2)))
    assert caught.value.code == "slot_not_prepared"


def test_a_slot_that_shows_something_else_than_recorded_stops_the_flip_and_is_repaired(
    flights: Any, warehouse: Warehouse
) -> None:
    flights.publish(flights.build(one(1)))
    version = flights.build(one(2))
    flights.prepare(version)
    with warehouse.connect(Role.PUBLISHER) as connection:
        connection.execute("drop view slot_b.fct cascade")
        connection.execute(
            "create view slot_b.fct as select 'b'::text as _slot, 'x'::text as _stamp, "
            "true as _live, 1 as number"
        )
    with pytest.raises(DestinationFailure) as caught:
        flights.flip(version)
    assert caught.value.code == "slot_not_prepared"
    assert flights.publish(version).outcome == "published"
    assert flights.read("select number from analytics.fct") == [(2,)]


def test_an_incomplete_lineage_stops_the_flip(flights: Any, warehouse: Warehouse) -> None:
    version = flights.build(one(1))
    flights.prepare(version)
    with warehouse.connect() as owner:
        owner.execute("update ops.artifacts set acceptance = 'pending', state = 'abandoned'")
    with pytest.raises(DestinationFailure) as caught:
        flights.flip(version)
    assert caught.value.code == "lineage_incomplete"
    assert "flights.weather/2013-01-01@1" in caught.value.message


def test_an_input_outside_the_version_stops_the_flip(flights: Any, warehouse: Warehouse) -> None:
    version = flights.build(one(1))
    flights.prepare(version)
    with warehouse.connect() as owner:
        owner.execute("update ops.version_models set parents = '{stg_gone}' where model = 'fct'")
    with pytest.raises(DestinationFailure, match="stg_gone"):
        flights.flip(version)


def test_an_older_run_never_takes_back_newer_partitions(flights: Any) -> None:
    day = "flights.weather/2013-01-{:02}"
    late = flights.build(one(1), {day.format(1): 1})
    corrected = flights.build(one(2), {day.format(1): 2})
    longer = flights.build(one(3), {day.format(1): 2, day.format(2): 1})
    flights.publish(corrected)
    for version in (late, flights.build(one(5), {day.format(2): 1})):
        flights.prepare(version)
        with pytest.raises(Busy) as caught:
            flights.flip(version)
        assert caught.value.code == "rebase_needed"
    assert flights.publish(longer).outcome == "published"


def test_a_correction_that_brings_the_old_rows_back_is_published(
    flights: Any, warehouse: Warehouse
) -> None:
    day = "flights.weather/2013-01-01"
    first = flights.build(one(1), {day: 1})
    flights.publish(first)
    flights.publish(flights.build(one(2), {day: 2}))
    with warehouse.connect() as owner:
        owner.execute(
            "insert into ops.artifacts select 'again', pipeline, resource, window_name, 3, "
            "'again', run_id, lease_name, fence, state, fetched, loaded, quarantined, checksum, "
            "schema_version, unexpected_fields, fetched_at, acceptance from ops.artifacts "
            "where revision = 1"
        )
    assert flights.publish(first).outcome == "published"


def test_two_publishers_at_once_publish_one_version(flights: Any) -> None:
    flights.publish(flights.build(one(1)))
    version = flights.build(one(2))
    flights.prepare(version)
    current = flights.published()
    outcomes: list[str] = []

    def publish() -> None:
        outcomes.append(flights.flip(version, expected_current=current).outcome)

    threads = [threading.Thread(target=publish) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["published", "unchanged", "unchanged", "unchanged"]


def test_pipelines_publish_independently(flights: Any, weather: Any) -> None:
    flights.publish(flights.build(one(1)))
    mart = {"weather_mart": "select 1 as hour"}
    weather.publish(weather.build(mart, {"weather.hours/2013-01-01": 1}))
    flights.publish(flights.build(one(2)))
    flights.rollback()
    assert flights.read("select number from analytics.fct") == [(1,)]
    assert flights.read("select hour from analytics.weather_mart") == [(1,)]


def test_a_model_belongs_to_one_pipeline(flights: Any, weather: Any) -> None:
    flights.publish(flights.build(one(1)))
    with pytest.raises(ConfigurationError) as caught:
        weather.prepare(weather.build(one(1)))
    assert caught.value.code == "model_taken"
    assert "by flights" in caught.value.message


def test_the_publisher_cannot_write_data(flights: Any, warehouse: Warehouse) -> None:
    version = flights.build(one(1))
    flights.publish(version)
    with warehouse.connect() as owner:
        row = owner.execute(
            "select relation_name from ops.relations where model = 'fct'"
        ).fetchone()
    assert row is not None
    for statement in (
        f"insert into store.{row[0]} values (2)",
        f"truncate store.{row[0]}",
        "create table store.mine (a int)",
        "create table staging.mine (a int)",
        "delete from ops.artifacts",
        "update ops.version_models set relation_name = 'x'",
        "insert into analytics.fct values (2)",
    ):
        with (
            warehouse.connect(Role.PUBLISHER) as connection,
            pytest.raises(psycopg.Error) as caught,
        ):
            connection.execute(statement)
        assert caught.value.sqlstate in {"42501", "55000"}, statement

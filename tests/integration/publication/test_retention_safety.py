"""Whatever is asked of the functions that drop, and by whomever: what is needed stays."""

import threading
import time
from typing import Any

import psycopg
import pytest
from retention_rows import add_run, ask, change, prune, relations_of, stage_rows, store_objects

from orchestration.errors import TransformFailure
from orchestration.identity import VersionId
from orchestration.runs.leases import try_acquire
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, build_lease
from orchestration.warehouse.versions import VersionModel, VersionRecord, record_version

DAY = "flights.weather/2013-01-01"
IN_USE = psycopg.errors.ObjectInUse


@pytest.fixture
def three(flights: Any) -> list[VersionId]:
    versions = []
    for value in range(3):
        versions.append(flights.build({"fct": f"select {value} as value"}, {DAY: value + 1}))
        flights.publish(versions[-1])
    return versions


@pytest.fixture
def runner(warehouse: Warehouse) -> Any:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        yield connection


@pytest.fixture
def lease(runner: psycopg.Connection) -> Lease:
    lease = try_acquire(runner, build_lease("flights"))
    assert lease is not None
    return lease


def call(
    connection: psycopg.Connection, function: str, lease: Lease, argument: Any
) -> list[tuple[Any, ...]]:
    return connection.execute(
        f"select * from {function}(%s, %s, %s)".encode(), [lease.name, lease.fence, argument]
    ).fetchall()


def drop_relation(connection: psycopg.Connection, lease: Lease, name: str) -> bool:
    row = connection.execute(
        "select ops.drop_relation(%s, %s, %s)", [[lease.name], [lease.fence], name]
    ).fetchone()
    return bool(row and row[0])


def test_a_version_that_is_published_held_pinned_or_of_an_open_run_is_not_dropped(
    flights: Any,
    warehouse: Warehouse,
    runner: psycopg.Connection,
    lease: Lease,
    three: list[VersionId],
) -> None:
    held = flights.build({"fct": "select 9 as value"}, {DAY: 9}, state="held")
    change(
        warehouse, "insert into ops.version_pins (version_id, reason) values (%s, 'x')", three[0]
    )
    with warehouse.connect() as owner:
        add_run(owner, "r_open", status="running", version=three[1])
    for version in (three[2], held, three[0], three[1]):
        with pytest.raises(IN_USE, match=f"version {version} is still needed"):
            call(runner, "ops.drop_version", lease, version)
    change(warehouse, "delete from ops.version_pins")
    assert call(runner, "ops.drop_version", lease, three[0]) == [(True,)]
    assert call(runner, "ops.drop_version", lease, three[0]) == [(False,)]


def test_a_relation_of_a_version_a_slot_or_an_open_run_is_not_dropped(
    flights: Any,
    warehouse: Warehouse,
    runner: psycopg.Connection,
    lease: Lease,
    three: list[VersionId],
) -> None:
    relations = [next(iter(relations_of(warehouse, version))) for version in three]
    candidate = flights.build({"fct": "select 9 as value"}, {DAY: 9})
    [unpublished] = relations_of(warehouse, candidate)
    change(warehouse, "delete from ops.versions where version_id = %s", three[1])
    change(warehouse, "delete from ops.versions where version_id = %s", candidate)
    with warehouse.connect() as owner:
        add_run(owner, "r", status="running")
    change(
        warehouse,
        "update ops.relations set run_id = 'other' where relation_name <> %s",
        unpublished,
    )
    for name in (*relations, unpublished):
        with pytest.raises(IN_USE, match=f"store.{name} is still needed"):
            drop_relation(runner, lease, name)
    change(warehouse, "update ops.runs set status = 'finished', outcome = 'unchanged'")
    assert drop_relation(runner, lease, unpublished)
    assert not drop_relation(runner, lease, unpublished)
    assert store_objects(warehouse) == set(relations)


def test_only_the_runner_may_drop_and_only_through_the_functions(
    warehouse: Warehouse, three: list[VersionId]
) -> None:
    [name] = relations_of(warehouse, three[0])
    for role in Role:
        with warehouse.connect(
            role, autocommit=True, default_transaction_read_only="off"
        ) as person:
            for statement in (
                f"drop table store.{name}",
                f"delete from ops.relations where relation_name = '{name}'",
                "delete from ops.versions",
                "delete from ops.artifacts",
                "delete from quarantine.records",
                "delete from ops.runs",
                "select ops.drop_version_views('v_0123456789abcdef')",
                "select ops.pipeline_of_build_lease('build/flights', 1)",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    person.execute(statement.encode())
            if role is not Role.RUNNER:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    person.execute("select ops.drop_relation('{}', '{}', %s)", [name])


def test_nothing_is_dropped_from_the_store_beside_the_build_of_an_unknown_pipeline(
    warehouse: Warehouse, runner: psycopg.Connection, lease: Lease, three: list[VersionId]
) -> None:
    [name] = relations_of(warehouse, three[0])
    change(warehouse, "delete from ops.versions where version_id = %s", three[0])
    other = try_acquire(runner, build_lease("brand_new"))
    assert other is not None
    with pytest.raises(IN_USE, match="somebody builds for another pipeline"):
        drop_relation(runner, lease, name)
    runner.execute("select ops.release_lease(%s, %s)", [other.name, other.fence])
    assert drop_relation(runner, lease, name)


def test_a_version_that_is_recorded_at_the_same_moment_keeps_what_it_reuses(
    flights: Any,
    warehouse: Warehouse,
    runner: psycopg.Connection,
    lease: Lease,
    three: list[VersionId],
) -> None:
    """Whoever comes first wins: the relation stays, or the version is told that it is gone."""
    [name] = relations_of(warehouse, three[0])
    change(warehouse, "delete from ops.versions where version_id = %s", three[0])
    manifest = ask(warehouse, "select manifest_id from ops.versions limit 1")[0][0]
    record = VersionRecord("v_" + "a" * 16, "flights", manifest, "r", "c")
    model = VersionModel("fct", name, name, True, (), ())
    with warehouse.connect(Role.TRANSFORMER) as first, first.transaction():
        record_version(first, record, [model], lease)
        runner.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            drop_relation(runner, lease, name)
    with pytest.raises(IN_USE):
        drop_relation(runner, lease, name)

    change(warehouse, "delete from ops.versions where version_id = %s", record.version_id)
    failures: list[TransformFailure] = []

    def record_meanwhile() -> None:
        with warehouse.connect(Role.TRANSFORMER, autocommit=True) as second:
            try:
                record_version(second, record, [model], lease)
            except TransformFailure as failure:
                failures.append(failure)

    with runner.transaction():
        assert drop_relation(runner, lease, name)
        thread = threading.Thread(target=record_meanwhile)
        thread.start()
        while not ask(
            warehouse, "select 1 from pg_locks where not granted and locktype = 'transactionid'"
        ):
            time.sleep(0.01)
    thread.join()
    assert [(failure.code, failure.transient) for failure in failures] == [("reused_dropped", True)]
    assert not relations_of(warehouse, record.version_id)


def test_what_a_new_run_would_start_from_is_not_dropped(
    warehouse: Warehouse, runner: psycopg.Connection, lease: Lease, three: list[VersionId]
) -> None:
    """Revision 3 is in no manifest any more, was rejected, then accepted; 2 is what it replaces."""
    stage_rows(warehouse)
    change(warehouse, "delete from ops.manifest_artifacts")
    every = [f"flights {DAY}@{revision}" for revision in (1, 2, 3)]
    change(warehouse, "update ops.artifacts set acceptance = 'rejected' where revision = 3")
    assert call(runner, "ops.drop_artifacts", lease, every) == [(every[0],)]
    change(warehouse, "update ops.artifacts set acceptance = 'accepted' where revision = 3")
    with warehouse.connect() as owner:
        add_run(owner, "r_open", status="accepted", partitions=(f"{DAY}@2",))
    assert call(runner, "ops.drop_artifacts", lease, every) == []
    change(warehouse, "update ops.runs set status = 'finished', outcome = 'unchanged'")
    assert try_acquire(runner, "run/r_open") is not None
    assert call(runner, "ops.drop_artifacts", lease, every) == []
    change(warehouse, "delete from ops.leases where name = 'run/r_open'")
    assert call(runner, "ops.drop_artifacts", lease, every) == [(every[1],)]


def test_what_is_held_or_in_a_manifest_is_not_dropped_whoever_asks(
    warehouse: Warehouse, runner: psycopg.Connection, lease: Lease, three: list[VersionId]
) -> None:
    change(
        warehouse,
        "insert into quarantine.partitions (pipeline, resource, partition, artifact_id, run_id, rule, "
        "error) values ('flights', 'flights.weather', 'p', %s, 'r', 'rule', 'e')",
        f"flights {DAY}@1",
    )
    numbers = [
        number for (number,) in ask(warehouse, "select partition_id from quarantine.partitions")
    ]
    assert runner.execute("select ops.drop_quarantine('{}', %s)", [numbers]).fetchall() == [(0,)]
    assert call(runner, "ops.drop_artifacts", lease, [f"flights {DAY}@1"]) == []
    manifests = [name for (name,) in ask(warehouse, "select manifest_id from ops.manifests")]
    assert call(runner, "ops.drop_manifests", lease, manifests) == []
    change(warehouse, "update ops.artifacts set state = 'dropped', acceptance = 'pending'")
    kept = runner.execute("select ops.forget_artifacts(%s)", [[f"flights {DAY}@1"]]).fetchall()
    assert kept == []


def test_a_run_that_somebody_drives_again_is_not_forgotten(
    warehouse: Warehouse, runner: psycopg.Connection, lease: Lease
) -> None:
    with warehouse.connect() as owner:
        for name in ("r_driven", "r_idle"):
            add_run(owner, name)
    driven = try_acquire(runner, "run/r_driven")
    assert driven is not None
    assert call(runner, "ops.drop_runs", lease, ["r_driven", "r_idle"]) == [("r_idle",)]
    assert ask(warehouse, "select name from ops.leases where name like 'run/%%'") == [
        ("run/r_driven",)
    ]


def test_a_prune_waits_for_a_build_and_a_build_for_a_slice_of_the_prune(
    warehouse: Warehouse, three: list[VersionId], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestration.runs.prune._WAIT_S", 0.1)
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        lease = try_acquire(runner, build_lease("flights"))
        assert lease is not None
        done = prune(warehouse)
        assert done.is_empty
        assert done.busy == ["build/flights"]
        runner.execute("select ops.release_lease(%s, %s)", [lease.name, lease.fence])
    monkeypatch.setattr("orchestration.runs.prune._SLICE_S", 0.0)
    monkeypatch.setattr("orchestration.runs.prune._PAUSE_S", 0.0)
    assert [item["version_id"] for item in prune(warehouse).versions] == three[:1]
    assert ask(warehouse, "select count(*) from ops.leases where expires_at > now()") == [(1,)]

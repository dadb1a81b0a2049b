"""A pinned version survives everything and can be read by people in its own schema."""

from typing import Any

import psycopg
import pytest
from retention_rows import ask, change, prune, relations_of, store_objects
from segment_tables import Segment

from orchestration.errors import ConfigurationError, DestinationFailure
from orchestration.identity import VersionId
from orchestration.publication.pins import Pin, pin_version, unpin_version
from orchestration.publication.versions import get_version
from orchestration.runs.operating import hold_build_lease
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.versions import create_version_views

DAY = "flights.weather/2013-01-01"


@pytest.fixture
def old(flights: Any) -> VersionId:
    """The first of three versions: one model in segments, one whole."""
    segments = [
        Segment(f"select {day} as value, '2013-01-0{day}' as _partition", (f"2013-01-0{day}",))
        for day in (1, 2)
    ]
    artifacts = {DAY: 1, "flights.weather/2013-01-02": 1}
    version = VersionId(flights.build({"fct": segments, "dim": "select 'x' as name"}, artifacts))
    flights.publish(version)
    for value in (2, 3):
        models = {"fct": f"select {value} as value", "dim": "select 'y' as name"}
        flights.publish(flights.build(models, {**artifacts, DAY: value}))
    return version


def act(warehouse: Warehouse, version: VersionId, *, pin: bool, reason: str = "audit") -> Pin:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        found = get_version(connection, version)
    with hold_build_lease(warehouse, "flights", on_wait=lambda _: None) as lease:
        change_it = pin_version if pin else unpin_version
        return change_it(warehouse, found, reason=reason, actor="ann", lease=lease)


def actions(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    return ask(
        warehouse,
        "select action, target, reason, actor from ops.operator_actions "
        "where action in ('pin', 'unpin') order by action_id",
    )


def test_a_pinned_version_outlives_prunes_and_goes_once_it_is_unpinned(
    warehouse: Warehouse, old: VersionId
) -> None:
    assert act(warehouse, old, pin=True) == Pin(old, changed=True)
    relations = relations_of(warehouse, old)
    done = prune(warehouse)
    assert done.versions == []
    assert [item["partition"] for item in done.artifacts] == []
    assert relations <= store_objects(warehouse)
    assert ask(warehouse, f"select value from {old}.fct order by 1") == [(1,), (2,)]
    assert act(warehouse, old, pin=False, reason="audited") == Pin(old, changed=True)
    assert ask(warehouse, "select to_regnamespace(%s)", old) == [(None,)]
    assert [item["version_id"] for item in prune(warehouse).versions] == [old]
    assert not relations & store_objects(warehouse)
    assert actions(warehouse) == [
        ("pin", old, "audit", "ann"),
        ("unpin", old, "audited", "ann"),
    ]


@pytest.mark.parametrize("role", [Role.ANALYST, Role.REVIEWER, None])
def test_people_read_a_pinned_version_with_the_columns_of_published_views(
    warehouse: Warehouse, old: VersionId, role: Role | None
) -> None:
    act(warehouse, old, pin=True)
    with warehouse.connect(role, autocommit=True) as person:
        if role is None:
            person.execute("set role sluice_reader")
        cursor = person.execute(f"select * from {old}.fct order by 1".encode())
        assert cursor.fetchall() == [(1,), (2,)]
        assert cursor.description is not None
        assert [column.name for column in cursor.description] == ["value"]
        assert person.execute(f"select * from {old}.dim".encode()).fetchall() == [("x",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            person.execute(f"create view {old}.mine as select 1".encode())


def test_pinning_twice_keeps_the_first_reason_and_makes_what_is_missing(
    warehouse: Warehouse, old: VersionId
) -> None:
    act(warehouse, old, pin=True)
    change(warehouse, f"drop view {old}.dim")
    assert act(warehouse, old, pin=True, reason="again") == Pin(old, changed=False)
    assert ask(warehouse, f"select name from {old}.dim") == [("x",)]
    assert ask(warehouse, "select reason from ops.version_pins") == [("audit",)]
    assert len(actions(warehouse)) == 1
    act(warehouse, old, pin=False)
    assert act(warehouse, old, pin=False) == Pin(old, changed=False)
    assert len(actions(warehouse)) == 2


def test_a_pin_needs_a_reason_and_relations(warehouse: Warehouse, old: VersionId) -> None:
    with pytest.raises(ConfigurationError, match="--reason") as caught:
        act(warehouse, old, pin=True, reason=" ")
    assert caught.value.code == "reason_missing"
    change(warehouse, "update ops.relations set state = 'abandoned' where model = 'dim'")
    with pytest.raises(DestinationFailure, match="run the pipeline again"):
        act(warehouse, old, pin=True)
    assert ask(warehouse, "select to_regnamespace(%s)", old) == [(None,)]


def test_a_gate_neither_breaks_nor_drops_the_schema_of_a_pinned_version(
    warehouse: Warehouse, old: VersionId
) -> None:
    models = dict(
        ask(
            warehouse,
            "select model, relation_name from ops.version_models where version_id = %s",
            old,
        )
    )
    act(warehouse, old, pin=True)
    for first in ("pin", "gate"):
        with (
            hold_build_lease(warehouse, "flights", on_wait=lambda _: None) as lease,
            warehouse.connect(Role.TRANSFORMER) as transformer,
        ):
            create_version_views(transformer, old, models, lease)
        with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
            runner.execute("select ops.drop_version_schema(%s)", [old])
        assert ask(warehouse, f"select value from {old}.fct order by 1") == [(1,), (2,)], first
        with warehouse.connect(Role.REVIEWER, autocommit=True) as reviewer:
            assert reviewer.execute(f"select name from {old}.dim".encode()).fetchall() == [("x",)]
        # Now the other way round: the gate's views were there before the pin.
        change(warehouse, "delete from ops.version_pins")
        change(warehouse, f"revoke usage on schema {old} from sluice_reviewer")
        act(warehouse, old, pin=True)


def test_a_schema_that_somebody_reads_is_left_to_the_next_prune(
    warehouse: Warehouse, old: VersionId
) -> None:
    act(warehouse, old, pin=True)
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute(f"select * from {old}.dim".encode())
        assert act(warehouse, old, pin=False).left == "another session uses it"
    assert prune(warehouse).left == []
    assert ask(warehouse, "select to_regnamespace(%s)", old) == [(None,)]


def test_the_schema_of_a_held_version_stays_for_its_reviewer(
    flights: Any, warehouse: Warehouse, old: VersionId
) -> None:
    held = VersionId(flights.build({"fct": "select 9 as value"}, {DAY: 9}, state="held"))
    act(warehouse, held, pin=True)
    assert act(warehouse, held, pin=False).left == f"schema {held} is still needed"
    assert ask(warehouse, f"select value from {held}.fct") == [(9,)]

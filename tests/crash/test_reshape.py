"""A change of shape that is cut off anywhere: readers see the old shape or the new one, and the same
request finishes it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from segment_tables import add_table

from orchestration.faultpoints import FaultPoint, arm, reach
from orchestration.identity import VersionId, digest
from orchestration.pipelines.shape_changes import AllowedShapeChange
from orchestration.publication.flip import publish_version
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.slots import prepare_slot
from orchestration.publication.versions import published_version
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease

OLD = {
    "fct": "select 1 as number, 'a'::text as name, 'p'::text as _partition",
    "dim": "select 1 as one",
    "agg": "select 1 as total",
}
NEW = {
    "fct": "select 2::bigint as number, 'b'::text as title, 'p'::text as _partition",
    "agg": "select 2::numeric as total",
}
ALLOWED = Allowed(
    tuple(
        AllowedShapeChange(**entry, reason="agreed")
        for entry in (
            {"retype": "fct.number", "to": "bigint"},
            {"rename": "fct.name", "to": "title"},
            {"retype": "agg.total", "to": "numeric"},
            {"withdraw": "dim"},
        )
    )
)
# Two slot views of two models, two published views made anew, one taken away.
STEPS = 7


@pytest.fixture
def lease(warehouse: Warehouse) -> Lease:
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        row = runner.execute(
            "select ops.acquire_lease('build/flights', 'test', %s)", [timedelta(hours=1)]
        ).fetchone()
    assert row is not None
    return Lease("build/flights", row[0])


def build(warehouse: Warehouse, models: dict[str, str]) -> VersionId:
    version = VersionId("v_" + digest(models)[:16])
    with warehouse.connect(Role.TRANSFORMER, autocommit=True) as transformer:
        relations = {name: add_table(transformer, "p", name, models[name], "") for name in models}
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "insert into ops.manifests values ('m_1', 'flights', 'r') on conflict do nothing"
        )
        owner.execute(
            "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id, state) "
            "values (%s, 'flights', 'm_1', 'r', 'c', 'passed')",
            [version],
        )
        for name, relation in relations.items():
            owner.execute(
                "insert into ops.version_models values (%s, %s, %s, %s, true, '{}', '{}')",
                [version, name, relation, relation],
            )
    return version


def publish(warehouse: Warehouse, version: VersionId, lease: Lease) -> None:
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        current = published_version(runner, "flights")
    prepare_slot(warehouse, "flights", version, lease=lease, allowed=ALLOWED)
    publish_version(
        warehouse, "flights", version, expected_current=current, lease=lease, run_id=None, owner="o"
    )


def strike_at(point: FaultPoint, arrival: int, act: Callable[[], None]) -> None:
    """Lets the point pass until it is reached for the `arrival`-th time."""
    arm(point, act if arrival == 0 else lambda: strike_at(point, arrival - 1, act))


def die() -> None:
    raise KeyboardInterrupt


def cut(warehouse: Warehouse) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where usename = 'sluice_publisher' and datname = current_database()"
        )


def seen(warehouse: Warehouse) -> dict[str, Any]:
    """What readers and people who look at the catalogue see."""
    found: dict[str, Any] = {}
    with warehouse.connect(autocommit=True) as owner:
        for schema, name in owner.execute(
            "select relnamespace::regnamespace::text, relname::text from pg_class where relkind = 'v' "
            "and relnamespace::regnamespace::text in ('analytics', 'deferred', 'former')"
        ).fetchall():
            cursor = owner.execute(f"select * from {schema}.{name}".encode())
            assert cursor.description is not None
            names = [column.name for column in cursor.description]
            found[f"{schema}.{name}"] = [names, cursor.fetchall()]
        for name, statement in {
            "slots": "select slot, model, shape, relation_name from ops.slot_views order by 1, 2, 3",
            "catalogue": "select relnamespace::regnamespace::text, relname::text from pg_class "
            "where relnamespace::regnamespace::text in ('slot_a', 'slot_b') order by 1, 2",
            "models": "select model, columns, shape, renamed from ops.published_models order by 1",
            "actions": "select action, target from ops.operator_actions order by action_id",
            "grants": "select oid::regclass::text, "
            "array(select x::text from unnest(relacl) x order by 1) from pg_class "
            "where relnamespace::regnamespace::text in ('analytics', 'deferred') order by 1",
        }.items():
            found[name] = owner.execute(statement.encode()).fetchall()
    return found


@pytest.fixture
def undisturbed(warehouse: Warehouse, lease: Lease) -> dict[str, Any]:
    publish(warehouse, build(warehouse, OLD), lease)
    return seen(warehouse)


OLD_FCT = [["number", "name"], [(1, "a")]]
NEW_FCT = [["number", "title"], [(1, "a")]]


@pytest.mark.parametrize("kind", ["death", "connection cut"])
@pytest.mark.parametrize("arrival", range(STEPS))
@pytest.mark.parametrize("point", [FaultPoint.PUBLISH_INSIDE_STEP, FaultPoint.PUBLISH_AFTER_STEP])
def test_a_change_of_shape_that_is_cut_off_is_finished_by_the_same_request(
    warehouse: Warehouse,
    lease: Lease,
    undisturbed: dict[str, Any],
    point: FaultPoint,
    arrival: int,
    kind: str,
) -> None:
    version = build(warehouse, NEW)
    struck: list[bool] = []

    def act() -> None:
        struck.append(True)
        die() if kind == "death" else cut(warehouse)

    strike_at(point, arrival, act)
    try:
        publish(warehouse, version, lease)
    except (KeyboardInterrupt, psycopg.OperationalError):
        pass
    else:
        # The very last step was done when the connection went away.
        assert (point, arrival, kind) == (
            FaultPoint.PUBLISH_AFTER_STEP,
            STEPS - 1,
            "connection cut",
        )
    assert struck
    between = seen(warehouse)
    if "analytics.dim" in between:
        assert between["analytics.fct"] in (OLD_FCT, NEW_FCT)
        shape = {name: number for name, _, number, _ in between["models"]}
        assert (shape["fct"] == 2) == (between["analytics.fct"] == NEW_FCT)
    publish(warehouse, version, lease)
    after = seen(warehouse)
    assert after["analytics.fct"] == [["number", "title"], [(2, "b")]]
    assert after["deferred.fct"] == [["number", "title", "_partition"], [(2, "b", "p")]]
    assert after["analytics.agg"][1] == [(2,)]
    assert "analytics.dim" not in after
    assert [action for action, _ in after["actions"]] == [
        *("change_shape", "change_shape"),
        "withdraw_model",
    ]
    assert len(after["catalogue"]) == 4
    assert {name for _, name in after["catalogue"]} == {"fct__shape2", "agg__shape2"}
    kept = {name: acl for name, acl in undisturbed["grants"] if name != "analytics.dim"}
    assert dict(after["grants"]) == kept


def test_every_step_of_a_change_of_shape_is_cut_off_once(
    warehouse: Warehouse, lease: Lease, undisturbed: dict[str, Any]
) -> None:
    version = build(warehouse, NEW)
    count = 0

    def again() -> None:
        nonlocal count
        count += 1
        arm(FaultPoint.PUBLISH_AFTER_STEP, again)

    arm(FaultPoint.PUBLISH_AFTER_STEP, again)
    try:
        publish(warehouse, version, lease)
    finally:
        arm(FaultPoint.PUBLISH_AFTER_STEP, lambda: None)
        reach(FaultPoint.PUBLISH_AFTER_STEP)
    assert count == STEPS


@pytest.mark.parametrize("arrival", range(4))
def test_before_a_view_is_made_anew_the_old_shape_may_be_published_instead(
    warehouse: Warehouse, lease: Lease, undisturbed: dict[str, Any], arrival: int
) -> None:
    version = build(warehouse, NEW)
    strike_at(FaultPoint.PUBLISH_AFTER_STEP, arrival, die)
    with pytest.raises(KeyboardInterrupt):
        publish(warehouse, version, lease)
    other = build(warehouse, {**OLD, "agg": "select 5 as total"})
    publish(warehouse, other, lease)
    after = seen(warehouse)
    assert after["analytics.agg"][1] == [(5,)]
    assert [view for view in after["catalogue"] if "shape" in view[1]] == []
    assert after["models"] == undisturbed["models"]
    assert after["actions"] == []

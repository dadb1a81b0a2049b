"""A pin that dies halfway is completed by the next; one that lost its lease changes nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from late_work import VERSION, begin_work, everything, hand_over
from retention_rows import ask, change

from orchestration.errors import LeaseLost
from orchestration.faultpoints import FaultPoint, arm, reach
from orchestration.publication.pins import pin_version, unpin_version
from orchestration.publication.versions import Version, get_version
from orchestration.publication.views import PUBLISHED_SCHEMA, READERS
from orchestration.runs.leases import try_acquire
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, build_lease
from orchestration.warehouse.pins import show_pinned_version

MODELS = {"dim_airport": "dim_airport__0123456789ab"}


class Died(BaseException):
    """The process ends here."""


@pytest.fixture
def version(warehouse: Warehouse) -> Version:
    begin_work(warehouse)
    change(warehouse, "grant select on store.dim_airport__0123456789ab to sluice_transformer")
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        return get_version(connection, VERSION)


@pytest.fixture
def lease(warehouse: Warehouse) -> Lease:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        lease = try_acquire(connection, build_lease("flights"))
    assert lease is not None
    return lease


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    for point in FaultPoint:
        reach(point)


def observe(warehouse: Warehouse) -> dict[str, Any]:
    return {
        "pins": ask(warehouse, "select version_id, reason from ops.version_pins"),
        "views": ask(
            warehouse,
            "select relname, relacl::text from pg_class where relnamespace = to_regnamespace(%s)",
            VERSION,
        ),
        "actions": ask(warehouse, "select action, target, reason from ops.operator_actions"),
    }


def strike() -> None:
    raise Died


@pytest.mark.parametrize("point", ["pin.after_row", "pin.after_views"])
def test_a_pin_that_dies_is_completed_by_the_next(
    warehouse: Warehouse, version: Version, lease: Lease, point: str
) -> None:
    pin_version(warehouse, version, reason="audit", actor="ann", lease=lease)
    undisturbed = observe(warehouse)
    unpin_version(warehouse, version, reason="over", actor="ann", lease=lease)
    change(warehouse, "delete from ops.operator_actions")
    arm(FaultPoint(point), strike)
    with pytest.raises(Died):
        pin_version(warehouse, version, reason="audit", actor="ann", lease=lease)
    pin_version(warehouse, version, reason="audit", actor="ann", lease=lease)
    assert observe(warehouse) == undisturbed


def test_an_unpin_that_dies_is_completed_by_the_next(
    warehouse: Warehouse, version: Version, lease: Lease
) -> None:
    pin_version(warehouse, version, reason="audit", actor="ann", lease=lease)
    arm(FaultPoint.PIN_AFTER_UNPIN, strike)
    with pytest.raises(Died):
        unpin_version(warehouse, version, reason="over", actor="ann", lease=lease)
    assert observe(warehouse)["pins"] == []
    unpin_version(warehouse, version, reason="over", actor="ann", lease=lease)
    assert observe(warehouse)["views"] == []
    assert ask(warehouse, "select action, reason from ops.operator_actions order by 1") == [
        ("pin", "audit"),
        ("unpin", "over"),
    ]


def show(warehouse: Warehouse, lease: Lease) -> None:
    with warehouse.connect(Role.TRANSFORMER, autocommit=True) as transformer:
        show_pinned_version(transformer, VERSION, MODELS, READERS[PUBLISHED_SCHEMA], lease)


WRITES: dict[str, Callable[[Warehouse, Version, Lease], object]] = {
    "pin": lambda w, version, lease: pin_version(
        w, version, reason="audit", actor="ann", lease=lease
    ),
    "unpin": lambda w, version, lease: unpin_version(
        w, version, reason="over", actor="ann", lease=lease
    ),
    "show": lambda w, _, lease: show(w, lease),
}


@pytest.mark.parametrize("write", WRITES)
def test_an_operator_who_lost_the_lease_neither_pins_nor_unpins(
    warehouse: Warehouse, version: Version, lease: Lease, write: str
) -> None:
    change(warehouse, "insert into ops.version_pins (version_id, reason) values (%s, 'x')", VERSION)
    hand_over(warehouse, lease)
    before = everything(warehouse) | observe(warehouse)
    with pytest.raises(LeaseLost):
        WRITES[write](warehouse, version, lease)
    assert everything(warehouse) | observe(warehouse) == before


def test_every_fault_point_of_pins_is_tested() -> None:
    points = {point for point in FaultPoint if point.startswith("pin.")}
    assert points == {"pin.after_row", "pin.after_views", FaultPoint.PIN_AFTER_UNPIN}

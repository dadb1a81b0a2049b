"""Each message arrives at a real receiver, at least once, by its key at most twice, and says enough."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from psycopg.types.json import Jsonb
from receiver import Receiver
from sabotage import Kind, Sabotage
from warm import WarmSluice

from orchestration.faultpoints import FaultPoint
from orchestration.notifications.routes import Alerts
from orchestration.runs.messages import deliver_left_over
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

OWNER, REVIEWER = "owner@example.com", "reviewer@example.com"
FAILURE = {
    "kind": "source",
    "stage": "extract",
    "error_code": "source_unavailable",
    "transient": True,
    "message": "the source does not answer; repeat the command",
    "next": "sluice replay r_1",
    "look": "sluice runs show r_1",
}
RUN = (
    "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, as_of, "
    "correlation_id, workflow_id, status, outcome, finished_at) values ('r_1', 'flights', 'manual', "
    "'k', 'c', '{}', now(), 'flights/msg_1', 'w', 'finished', 'published', now())"
)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def alerts(receiver: Receiver) -> Alerts:
    routes = {OWNER: (receiver.route("owner"),), "*": (receiver.route("{email}"),)}
    return Alerts(routes, "https://sluice.example.com")


def write(warehouse: Warehouse, key: str, kind: str, payload: dict[str, Any], who: str) -> None:
    with warehouse.connect(autocommit=True) as owner:
        if not owner.execute("select 1 from ops.runs").fetchone():
            owner.execute(RUN.encode())
        owner.execute(
            "insert into ops.outbox (dedup_key, pipeline, run_id, kind, owner, payload) "
            "values (%s, 'flights', 'r_1', %s, %s, %s)",
            [key, kind, who, Jsonb(payload)],
        )


def waiting(warehouse: Warehouse) -> list[str]:
    with warehouse.connect() as owner:
        rows = owner.execute(
            "select dedup_key from ops.outbox where delivered_at is null order by outbox_id"
        ).fetchall()
    return [key for (key,) in rows]


def test_each_kind_arrives_once_at_whom_it_concerns(
    warehouse: Warehouse, receiver: Receiver
) -> None:
    rules = [{"resource": "flights.weather", "rule": "wind_speed.range", "count": 3}]
    left_out = ["flights.weather/2013-02-12@1"]
    write(warehouse, "k1", "failed", FAILURE, OWNER)
    write(warehouse, "k2", "held", FAILURE | {"kind": "quality", "transient": False}, OWNER)
    write(warehouse, "k3", "degraded", {"partitions": left_out}, OWNER)
    write(warehouse, "k4", "quarantined", {"rules": rules, "next": "sluice quarantine"}, REVIEWER)
    write(warehouse, "k5", "recovered", {"after": ["failed in run r_0"]}, OWNER)
    write(warehouse, "k6", "published", {"version_id": "v_1", "alert": True}, OWNER)
    write(warehouse, "k7", "published", {"version_id": "v_1", "alert": False}, OWNER)
    for _ in range(2):
        deliver_left_over(warehouse, alerts(receiver))
    assert waiting(warehouse) == []
    assert receiver.keys == {f"k{number}": 1 for number in range(1, 7)}
    assert [path for path, _ in receiver.told] == ["owner"] * 3 + [
        REVIEWER, "owner", "owner",
    ]  # fmt: skip
    failed, held, degraded, quarantined, recovered, _ = [item for _, item in receiver.told]
    assert failed["title"] == "flights: failed: readers see what they saw before"
    assert receiver.fact(failed, "Class") == "source (source_unavailable), may pass by itself"
    assert receiver.fact(held, "Class").endswith("needs somebody")
    assert receiver.fact(failed, "Report") == "https://sluice.example.com/reports/r_1"
    assert receiver.fact(failed, "Next") == "sluice replay r_1"
    assert receiver.fact(failed, "Request") == "flights/msg_1"
    assert receiver.fact(degraded, "Left out") == left_out[0]
    assert receiver.fact(quarantined, "Records kept out") == "3 flights.weather wind_speed.range"
    assert receiver.fact(recovered, "Before") == "failed in run r_0"
    assert {failed["type"], degraded["type"], recovered["type"]} == {
        "failure",
        "warning",
        "success",
    }


def test_what_is_not_taken_stays_and_is_told_later_once(
    warehouse: Warehouse, receiver: Receiver
) -> None:
    receiver.status = 500
    write(warehouse, "k1", "failed", FAILURE, OWNER)
    write(warehouse, "k2", "failed", FAILURE, OWNER)
    deliver_left_over(warehouse, alerts(receiver))
    assert waiting(warehouse) == ["k1", "k2"]
    receiver.status = 200
    for _ in range(2):
        deliver_left_over(warehouse, alerts(receiver))
    assert (waiting(warehouse), receiver.keys) == ([], {"k1": 1, "k2": 1})


def test_an_owner_who_cannot_be_reached_keeps_nobody_else_waiting(
    warehouse: Warehouse, receiver: Receiver
) -> None:
    write(warehouse, "k1", "failed", FAILURE, "nobody@example.com")
    write(warehouse, "k2", "failed", FAILURE, OWNER)
    deliver_left_over(warehouse, Alerts({OWNER: (receiver.route("owner"),)}))
    assert (waiting(warehouse), receiver.keys) == (["k1"], {"k2": 1})


def test_killed_in_mid_delivery_a_message_is_told_twice_at_most_with_the_same_key(
    sluice: WarmSluice, receiver: Receiver, server: EmbeddedServer
) -> None:
    write(sluice.warehouse, "k1", "failed", FAILURE, OWNER)
    write(sluice.warehouse, "k2", "failed", FAILURE, OWNER)
    sluice.extra["SLUICE_ALERT_ROUTES"] = json.dumps({"*": receiver.route("all")})
    kill = Sabotage(
        FaultPoint.NOTIFY_BEFORE_DELIVERY, "", Kind.SIGKILL, sluice.warehouse.database,
        server.superuser_url("postgres"), str(server.home),
    )  # fmt: skip
    assert replace(sluice, sabotage=(kill,)).call("recover", "--json").returncode < 0
    assert receiver.keys == {"k1": 1}
    sluice.json("recover")
    sluice.json("recover")
    assert (waiting(sluice.warehouse), receiver.keys) == ([], {"k1": 2, "k2": 1})


def test_routes_stay_out_of_what_is_printed(receiver: Receiver) -> None:
    assert "127.0.0.1" not in repr(alerts(receiver))

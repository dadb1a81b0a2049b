"""What a sender is answered, and that 2xx means kept: over a socket, signed as a sender signs."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from platform_api import PlatformApi
from psycopg import sql
from web_service import READY, SECRET, WebService, message, secret, signed

from orchestration.console.webhooks import MAX_BODY_BYTES
from orchestration.warehouse.embedded import EmbeddedServer

INBOX = "select source, message_id, event from ops.inbox order by inbox_id"


def wait_for(true: object, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_message_is_kept_once_and_a_dispatcher_is_started_after_it(
    web: WebService, api: PlatformApi
) -> None:
    before = len(api.starts)
    first = web.send(READY, "msg_a")
    assert (first.status_code, first.json()["status"]) == (202, "accepted")
    again = web.send(READY, "msg_a")
    assert (again.status_code, again.json()["status"]) == (200, "repeated")
    assert web.sluice.query(INBOX) == [
        (
            "flights",
            "msg_a",
            {"type": "partitions.ready", "resource": "flights.flights", "windows": ["2013-02-01"]},
        )
    ]
    assert web.sluice.query("select pipeline, run_id from ops.inbox_work") == [("flights", None)]
    wait_for(lambda: len(api.starts) == before + 1)
    assert api.starts[-1]["task"] == "sluice-runs/dispatch"


def test_another_message_under_the_same_id_is_refused(web: WebService) -> None:
    assert web.send(READY).status_code == 202
    other = web.send(message("flights.flights", "2013-02-03"))
    assert (other.status_code, other.json()["error"]["code"]) == (409, "id_taken")
    assert len(web.sluice.query(INBOX)) == 1


def test_what_is_not_genuine_is_refused(web: WebService) -> None:
    body = json.dumps(READY).encode()
    good = signed(body, "msg_1")
    tampered = body.replace(b"02-01", b"02-02")
    attempts = {
        "tampered": (tampered, good),
        "another id": (body, good | {"webhook-id": "msg_2"}),
        "expired": (body, signed(body, "msg_1", moment=time.time() - 400)),
        "from the future": (body, signed(body, "msg_1", moment=time.time() + 400)),
        "wrong secret": (body, signed(body, "msg_1", key=secret("stranger"))),
        "no signature": (body, {"webhook-id": "msg_1", "webhook-timestamp": "1"}),
        "nonsense": (body, good | {"webhook-signature": "v1,%%% v1 ,"}),
        "no number": (body, good | {"webhook-timestamp": "nan"}),
        "not text": (b"\xff\xfe", good),
    }
    for what, (content, headers) in attempts.items():
        answer = web.client.post("/webhooks/flights", content=content, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "not_genuine"), what
    assert web.sluice.query(INBOX) == []


def test_what_is_genuine_and_not_valid_is_refused_without_repeating_it(web: WebService) -> None:
    values = {
        "malformed": b"{",
        "not an object": [READY],
        "an unknown field": READY | {"cost": "secret-value"},
        "an unknown type": READY | {"type": "secret-value"},
        "no timestamp": {name: READY[name] for name in ("type", "data")},
        "another source": message("secret.value", "2013-02-01"),
        "no day": message("flights.flights", "2013-02-30"),
        "no days": message("flights.flights"),
        "days of a snapshot": message("flights.planes", "2013-02-01"),
        "a day that has not ended": message("flights.flights", "2099-01-01"),
        "a number for a day": READY | {"data": {"resource": "flights.flights", "days": [20130201]}},
        "too many days": message("flights.flights", *["2013-02-01"] * 367),
    }
    for what, value in values.items():
        answer = web.send(value, f"msg {what}")
        assert answer.status_code == 422, what
        [problem, *_] = answer.json()["error"]["problems"]
        assert problem["problem"], what
        assert "secret-value" not in answer.text, what
    assert web.sluice.query(INBOX) == []


def test_a_snapshot_is_named_without_days(web: WebService) -> None:
    assert web.send(message("flights.planes", kind="partitions.corrected")).status_code == 202
    [(_, _, event)] = web.sluice.query(INBOX)
    assert event["windows"] == ["snapshot"]


def test_what_is_too_large_is_refused_before_it_is_read(web: WebService) -> None:
    large = b" " * (MAX_BODY_BYTES + 1)
    answer = web.send(large)
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")

    def chunks() -> "list[bytes]":
        return [b" " * 1000] * 100

    unannounced = web.client.post("/webhooks/flights", content=iter(chunks()))
    assert unannounced.status_code == 413
    host, port = web.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as raw:
        raw.sendall(
            b"POST /webhooks/flights HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n"
        )
        assert b"413" in raw.recv(100)


def test_a_source_that_nobody_listens_to_is_unknown(web: WebService) -> None:
    assert web.send(READY, source="weather").status_code == 404
    assert web.client.get("/webhooks/flights").status_code == 405


def test_five_hundred_at_once_are_all_kept_once(web: WebService) -> None:
    def send(number: int) -> int:
        # Every message comes twice.
        return web.send(READY, f"msg_{number // 2}").status_code

    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(send, range(500)))
    assert (answers.count(202), answers.count(200)) == (250, 250)
    assert web.sluice.query("select count(*) from ops.inbox") == [(250,)]


def test_while_the_warehouse_is_away_the_sender_is_asked_to_come_again(
    web: WebService, server: EmbeddedServer
) -> None:
    assert web.send(READY, "before").status_code == 202
    database = web.sluice.warehouse.database

    def administer(statement: str) -> None:
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(sql.Identifier(database)))
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s",
                [database],
            )

    administer("alter database {} allow_connections false")
    try:
        refused = web.send(READY, "meanwhile")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert web.client.get("/healthz").status_code == 200
        ready = web.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "not ready")
        web.log_in()
        assert web.client.get("/runs").status_code == 503
    finally:
        administer("alter database {} allow_connections true")
    answer = web.send(READY, "meanwhile")
    assert answer.status_code == 202
    assert web.client.get("/readyz").status_code == 200
    assert [name for _, name, _ in web.sluice.query(INBOX)] == ["before", "meanwhile"]


@pytest.mark.parametrize("status", [500, 429])
def test_a_platform_that_is_down_costs_the_sender_nothing(
    web: WebService, api: PlatformApi, status: int
) -> None:
    api.status = status
    asked = api.asked
    assert web.send(READY).status_code == 202
    wait_for(lambda: api.asked > asked)
    assert web.send(READY, "msg_2").status_code == 202
    wait_for(lambda: "dispatcher not started" in web.log)


def test_logs_hold_no_secret_and_no_body(web: WebService) -> None:
    web.send(READY, "msg_logged")
    assert "msg_logged" in web.log
    for hidden in (SECRET, "whsec_", "webhook-signature", "a long password"):
        assert hidden not in web.log

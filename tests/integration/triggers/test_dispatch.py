"""Every message becomes part of exactly one run, and every run is started once, however late."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from inbox import CODE, asked, flights, put
from platform_api import PlatformApi

from orchestration.settings import Settings
from orchestration.triggers.batches import take_on
from orchestration.triggers.starters import choose_starter
from orchestration.triggers.starts import NotStarted, Started, Starter, Waiting, start_waiting
from orchestration.warehouse.connections import Role, Warehouse

SETTINGS = Settings()


@pytest.fixture
def runner(warehouse: Warehouse) -> Iterator[psycopg.Connection]:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        yield connection


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlatformApi]:
    with PlatformApi() as api:
        for name, value in api.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SLUICE_RETRY_BASE_SECONDS", "0")
        yield api


def let_claims_run_out(warehouse: Warehouse) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("update ops.run_starts set next_at = clock_timestamp()")


def test_messages_of_a_batch_are_one_run_and_are_taken_once(
    warehouse: Warehouse, runner: psycopg.Connection
) -> None:
    pipeline = flights(SETTINGS, max_events=3)
    assert put(warehouse, "a", "2013-02-01") == "new"
    assert put(warehouse, "a", "2013-02-01") == "repeated"
    assert put(warehouse, "a", "2013-02-02") == "different"
    for name in "bcde":
        put(warehouse, name, "2013-02-01", "2013-02-02", corrected=name == "e")
    first, second = (take_on(runner, pipeline, CODE) for _ in range(2))
    assert first is not None
    assert second is not None
    assert take_on(runner, pipeline, CODE) is None
    assert (first.messages, first.partitions) == (3, 2)
    assert asked(runner, first.run_id) == {
        "flights.flights/2013-02-01@1",
        "flights.flights/2013-02-02@1",
    }
    # What was corrected is a new revision.
    assert asked(runner, second.run_id) == {
        "flights.flights/2013-02-01@2",
        "flights.flights/2013-02-02@2",
    }
    [(kind, correlation)] = runner.execute(
        "select trigger_kind, correlation_id from ops.runs where run_id = %s", [first.run_id]
    ).fetchall()
    assert (kind, correlation) == ("micro_batch", "flights/a")


def test_messages_wait_for_others_for_as_long_as_the_pipeline_says(
    warehouse: Warehouse, runner: psycopg.Connection
) -> None:
    patient = flights(SETTINGS, max_wait_seconds=3600)
    put(warehouse, "a", "2013-02-01")
    assert take_on(runner, patient, CODE) is None
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("update ops.inbox set received_at = received_at - interval '1 hour'")
    assert take_on(runner, patient, CODE) is not None
    put(warehouse, "b", "2013-02-01")
    assert take_on(runner, patient, CODE, flush=True) is not None


def test_dispatchers_at_once_take_every_message_once(warehouse: Warehouse) -> None:
    pipeline = flights(SETTINGS, max_events=5)
    for number in range(60):
        put(warehouse, f"m{number}", f"2013-02-{number % 28 + 1:02}")

    def work(_: int) -> list[Any]:
        with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            return list(iter(lambda: take_on(connection, pipeline, CODE), None))

    with ThreadPoolExecutor(4) as pool:
        taken = [item for found in pool.map(work, range(4)) for item in found]
    assert sum(item.messages for item in taken) == 60
    assert len({item.run_id for item in taken}) == len(taken) == 12


@pytest.mark.parametrize("status", [500, 503, 429, 401])
def test_what_the_platform_refuses_is_started_later_once(
    warehouse: Warehouse, runner: psycopg.Connection, api: PlatformApi, status: int
) -> None:
    pipeline, starter = flights(SETTINGS, max_events=1), choose_starter(Settings())
    for name in "ab":
        put(warehouse, name, "2013-02-01")
        take_on(runner, pipeline, CODE)
    api.status = status
    [refused] = start_waiting(runner, starter)
    assert isinstance(refused, Waiting)
    # A platform that refuses one is not asked for the next.
    assert api.asked == 1
    assert "a-key-of-the-platform" not in refused.error
    api.status = 202
    let_claims_run_out(warehouse)
    started = start_waiting(runner, starter)
    assert [type(item) for item in started] == [Started, Started]
    assert start_waiting(runner, starter) == []
    runs = runner.execute("select run_id from ops.runs order by accepted_at").fetchall()
    assert api.inputs("execute") == [[run_id] for (run_id,) in runs]


def test_a_platform_that_is_too_slow_starts_a_run_once(
    warehouse: Warehouse,
    runner: psycopg.Connection,
    api: PlatformApi,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("orchestration.workflow._ANSWER_S", 0.5)
    put(warehouse, "a", "2013-02-01")
    take_on(runner, flights(SETTINGS), CODE)
    starter = choose_starter(Settings())
    # It takes the run, and its answer comes too late: nobody knows.
    api.delay_s = 1.0
    [late] = start_waiting(runner, starter)
    assert isinstance(late, Waiting)
    assert "Timeout" in late.error
    api.delay_s = 0.0
    let_claims_run_out(warehouse)
    [started] = start_waiting(runner, starter)
    assert isinstance(started, Started)
    assert started.reference == "trn-1"
    assert len(api.starts) == 1


def test_a_run_that_waits_longer_each_time_is_never_given_up(
    warehouse: Warehouse, runner: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Away(Starter):
        def start_run(self, run_id: object) -> str:
            raise NotStarted("away")

    monkeypatch.setenv("SLUICE_RETRY_BASE_SECONDS", "1")
    put(warehouse, "a", "2013-02-01")
    take_on(runner, flights(SETTINGS), CODE)
    waits = []
    for _ in range(12):
        let_claims_run_out(warehouse)
        assert len(start_waiting(runner, Away())) == 1
        row = runner.execute(
            "select extract(epoch from next_at - clock_timestamp())::float from ops.run_starts"
        ).fetchone()
        assert row is not None
        waits.append(row[0])
    assert 7 <= waits[0] <= 15
    assert all(440 <= wait <= 900 for wait in waits[8:])


def test_messages_are_forgotten_only_when_they_were_taken_long_ago(
    warehouse: Warehouse, runner: psycopg.Connection
) -> None:
    put(warehouse, "taken", "2013-02-01")
    take_on(runner, flights(SETTINGS), CODE)
    put(warehouse, "waiting", "2013-02-02")
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("update ops.inbox set received_at = received_at - interval '31 days'")
    put(warehouse, "new", "2013-02-02")
    assert runner.execute("select ops.forget_events(0)").fetchone() == (1,)
    left = runner.execute("select message_id from ops.inbox order by inbox_id").fetchall()
    assert left == [("waiting",), ("new",)]


def test_recovery_leaves_a_run_to_the_platform_for_a_while(
    warehouse: Warehouse, runner: psycopg.Connection, api: PlatformApi
) -> None:
    from orchestration.runs.recovery import find_interrupted

    put(warehouse, "a", "2013-02-01")
    taken = take_on(runner, flights(SETTINGS), CODE)
    assert taken is not None
    assert find_interrupted(runner) == []
    start_waiting(runner, choose_starter(Settings()))
    assert find_interrupted(runner) == []
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("update ops.run_starts set started_at = started_at - interval '16 minutes'")
    assert [item.run_id for item in find_interrupted(runner)] == [taken.run_id]

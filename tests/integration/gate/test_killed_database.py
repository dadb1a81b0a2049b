"""A database that dies under a gate is an outage, whenever it dies, and never bad data."""

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from demo_project import DataTests, make_project
from shelf import NOON, SUITE, content, make_shelf, rows
from world import Kind, World

from orchestration.errors import DestinationFailure
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.setup import set_up

SLOW = (
    "unexpected_rows_expectation | critical | {unexpected_rows_query: 'select _partition from {batch}"
    " where key = (select count(*) from generate_series(1, 20000000))'} | columns: [key]"
)
SLOW_TEST = """
select 1 from {{ ref('readings') }}
where key = (select count(*) from generate_series(1, 20000000))
"""


@pytest.fixture
def mortal() -> Iterator[EmbeddedServer]:
    """A server of this test alone, which it may kill."""
    home = Path(tempfile.mkdtemp(prefix="sluice-mortal-"))
    home.chmod(0o755)
    server = EmbeddedServer(home, durable=False)
    server.start()
    yield server
    server.destroy()
    shutil.rmtree(home, ignore_errors=True)


def gate_backends(url: str) -> list[int]:
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            found = connection.execute(
                "select pid from pg_stat_activity where usename = 'sluice_gate' "
                "and state = 'active' and query like '%generate_series%'"
            ).fetchall()
    except psycopg.OperationalError:
        return []
    return [pid for (pid,) in found]


def kill_the_database(url: str, delay_s: float) -> None:
    """SIGKILL for the server process of a gate at work: Postgres throws everybody out and recovers."""
    while not (pids := gate_backends(url)):
        time.sleep(0.01)
    time.sleep(delay_s)
    os.kill(pids[0], signal.SIGKILL)


@contextmanager
def killer(server: EmbeddedServer, delay_s: float) -> Iterator[None]:
    """Kills the database while the block works."""
    thread = threading.Thread(target=kill_the_database, args=(server.superuser_url(), delay_s))
    thread.start()
    yield
    thread.join()
    wait_until_it_is_back(server)


@pytest.mark.slow
def test_a_killed_database_fails_no_expectation(mortal: EmbeddedServer, tmp_path: Path) -> None:
    warehouse = Warehouse(mortal.url())
    set_up(warehouse)
    moments = random.Random(20240601)
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        shelf = make_shelf(warehouse, runner, tmp_path)
        shelf.write_suite(SLOW, *SUITE)
        version = shelf.version({"2024-06-01": content(rows(*range(1, 400)))}, ["m"])
        shelf.builder.close()
        shelf.owner.close()
    for _ in range(3):
        with warehouse.connect(Role.RUNNER, autocommit=True) as shelf.runner:
            judging = shelf.judging(version, NOON)
            with killer(mortal, moments.random()), pytest.raises(DestinationFailure) as caught:
                judging.evaluate_suites()
        assert caught.value.transient
    with warehouse.connect(Role.RUNNER, autocommit=True) as shelf.runner:
        assert shelf.runner.execute("select count(*) from ops.verdicts").fetchone() == (0,)
        shelf.write_suite(*SUITE)
        assert shelf.judge(version).statuses == {"readings": "passed"}


@pytest.mark.slow
def test_a_killed_database_fails_no_data_test(mortal: EmbeddedServer, tmp_path: Path) -> None:
    warehouse = Warehouse(mortal.url())
    set_up(warehouse)
    moments = random.Random(20240601)
    world = World()
    world.put("2024-01-01", world.make(Kind.GOOD, 0))
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        shelf = make_shelf(warehouse, runner, tmp_path)
        project = tmp_path / "project"
        graph = make_project(
            project, {"tests/slow.sql": SLOW_TEST}, warehouse.url(Role.TRANSFORMER)
        )
        tests = DataTests(shelf, graph, project)
        version = tests.version(world)
        shelf.builder.close()
        shelf.owner.close()
    for _ in range(3):
        with killer(mortal, moments.random()), pytest.raises(DestinationFailure) as caught:
            tests.run_by_dbt(version)
        assert caught.value.transient
    assert set(tests.run_by_dbt(version).values()) == {"pass"}


def wait_until_it_is_back(server: EmbeddedServer) -> None:
    for _ in range(600):
        try:
            psycopg.connect(server.superuser_url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server did not come back")

"""A database that dies under a gate is an outage, whenever it dies, and never bad data."""

import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from shelf import NOON, SUITE, content, make_shelf, rows

from orchestration.errors import DestinationFailure
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.setup import set_up

SLOW = (
    "unexpected_rows_expectation | critical | {unexpected_rows_query: 'select _partition from {batch}"
    " where key = (select count(*) from generate_series(1, 20000000))'} | columns: [key]"
)


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
                "select pid from pg_stat_activity where application_name = 'sluice-gate' "
                "and state = 'active'"
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


@pytest.mark.slow
def test_a_killed_database_fails_no_expectation(mortal: EmbeddedServer, tmp_path: Path) -> None:
    warehouse = Warehouse(mortal.url())
    set_up(warehouse)
    moments = random.Random(20240601)
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        shelf = make_shelf(warehouse, runner, tmp_path)
        shelf.write_suite(SLOW, *SUITE)
        days = {"2024-06-01": content(rows(*range(1, 400)))}
        version = shelf.version(days, ["m"])
        shelf.builder.close()
        shelf.owner.close()
    for _ in range(3):
        with warehouse.connect(Role.RUNNER, autocommit=True) as shelf.runner:
            judging = shelf.judging(version, NOON)
            killer = threading.Thread(
                target=kill_the_database, args=(mortal.superuser_url(), moments.random())
            )
            killer.start()
            with pytest.raises(DestinationFailure) as caught:
                judging.evaluate_suites()
            killer.join()
        assert caught.value.transient
        wait_until_it_is_back(mortal)
    with warehouse.connect(Role.RUNNER, autocommit=True) as shelf.runner:
        verdicts = shelf.runner.execute("select count(*) from ops.verdicts").fetchone()
        assert verdicts == (0,)
        shelf.write_suite(*SUITE)
        assert shelf.judge(version).statuses == {"readings": "passed"}


def wait_until_it_is_back(server: EmbeddedServer) -> None:
    for _ in range(600):
        try:
            psycopg.connect(server.superuser_url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server did not come back")

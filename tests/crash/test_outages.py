"""The warehouse goes away in the middle of a run, which ends by itself as if it had not."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from harness import Sluice
from holding import (
    MIDDLES,
    READERS,
    held_at_the_start,
    held_in_the_middle,
    let_go,
    locked_staging,
    wait_for,
    wait_until_held,
    wait_until_waiting,
)
from observation import REQUEST, differences
from psycopg import sql

from orchestration.warehouse.embedded import EmbeddedServer

REFUSED_S = 20
# A failed attempt at a unit stays in its history.
HISTORY = {"verdicts"}


def restart(server: EmbeddedServer) -> None:
    server.stop()
    server.start()


def refuse_by_stopping(server: EmbeddedServer, _database: str) -> None:
    server.stop()
    time.sleep(REFUSED_S)
    server.start()


def refuse_by_order(server: EmbeddedServer, database: str) -> None:
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:

        def allow(allowed: bool) -> None:
            connection.execute(
                sql.SQL("alter database {} allow_connections {}").format(
                    sql.Identifier(database), sql.Literal(allowed)
                )
            )

        allow(False)
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", [database]
        )
        time.sleep(REFUSED_S)
        allow(True)


def ended_well(run: "Future[Any]", sluice: Sluice, undisturbed: dict[str, Any]) -> None:
    done = run.result()
    assert done["outcome"] in {"published", "unchanged"}
    assert differences(sluice, undisturbed) == {}
    assert sluice.query("select name from ops.leases where expires_at > clock_timestamp()") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refuse", "stage"), [(refuse_by_stopping, "transform"), (refuse_by_order, "extract")]
)
def test_a_run_outlives_twenty_seconds_without_a_connection(
    refuse: Callable[[EmbeddedServer, str], None],
    stage: str,
    fresh_sluice: Callable[[], Sluice],
    server: EmbeddedServer,
    undisturbed: dict[str, Any],
) -> None:
    """Longer than its leases live: it takes them again."""
    sluice = fresh_sluice()
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(sluice.json, *REQUEST)
        wait_for(
            sluice,
            f"select 1 from ops.run_stages where stage = '{stage}' and status = 'running'",
        )
        refuse(server, sluice.warehouse.database)
        ended_well(run, sluice, undisturbed)


@pytest.mark.slow
def test_a_run_outlives_a_restart_inside_a_statement_of_every_stage(
    fresh_sluice: Callable[[], Sluice], server: EmbeddedServer, undisturbed: dict[str, Any]
) -> None:
    sluice = fresh_sluice()
    with ThreadPoolExecutor(1) as pool, held_in_the_middle(sluice, *MIDDLES):
        run = pool.submit(sluice.json, *REQUEST)
        for stage in MIDDLES:
            wait_until_held(sluice, stage)
            restart(server)
            let_go(sluice, stage)
        ended_well(run, sluice, undisturbed)


@pytest.mark.slow
def test_a_run_outlives_a_restart_while_a_library_loads_builds_and_judges(
    fresh_sluice: Callable[[], Sluice], server: EmbeddedServer, undisturbed: dict[str, Any]
) -> None:
    sluice = fresh_sluice()
    with ThreadPoolExecutor(1) as pool, held_at_the_start(sluice, *READERS):
        run = pool.submit(sluice.json, *REQUEST)
        for stage, role in READERS.items():
            wait_until_held(sluice, stage)
            with locked_staging(sluice):
                let_go(sluice, stage)
                wait_until_waiting(sluice, role)
                restart(server)
        ended_well(run, sluice, undisturbed)

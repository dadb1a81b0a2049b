"""A run that is to be stopped does not wait for the long thing that it is doing."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness import Sluice
from holding import (
    READERS,
    held_at_the_start,
    held_in_the_middle,
    let_go,
    locked_staging,
    wait_for,
    wait_until_held,
    wait_until_waiting,
)
from warm import WarmSluice

from ingestion.demo_api.faults import Fault
from orchestration.runs.cancellation import request_cancel
from orchestration.warehouse.connections import Role

DAY = "2013-02-12"
REQUEST = ("run", "--pipeline", "flights", "--partitions", DAY, "--json")


def cancel(sluice: Sluice) -> str:
    """What the request came to; it waits until the run has stopped, but not for ever."""
    [(run_id,)] = sluice.query("select run_id from ops.runs")
    with sluice.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        return request_cancel(connection, run_id, reason="drill", wait_s=600)


def check_that_it_is_clean(sluice: Sluice) -> None:
    assert sluice.query("select status, cause from ops.runs") == [("cancelled", "cancelled")]
    assert sluice.query("select name from ops.leases where expires_at > clock_timestamp()") == []
    assert sluice.query("select 1 from ops.attempts where status = 'running'") == []
    assert sluice.query("select 1 from ops.run_stages where status = 'running'") == []
    assert sluice.query("select 1 from ops.publications") == []


@pytest.mark.slow
def test_statements_that_load_build_and_judge_are_stopped(sluice: WarmSluice) -> None:
    """Each waits for a lock that is held until the run has stopped: nothing else could end it."""
    with ThreadPoolExecutor(1) as pool, held_at_the_start(sluice, *READERS):
        for stage, role in READERS.items():
            run = pool.submit(sluice.call, *REQUEST)
            wait_until_held(sluice, stage)
            with locked_staging(sluice):
                let_go(sluice, stage)
                wait_until_waiting(sluice, role)
                assert cancel(sluice) == "cancelled"
            done = run.result()
            failure = json.loads(done.stdout)["failure"]
            assert (done.returncode, failure["error_code"]) == (75, "cancelled"), stage
            assert failure["stage"] == stage
            assert sluice.query(
                f"select distinct cause from ops.checkpoints where stage = '{stage}' "
                "and step = '' and status = 'failed'"
            ) == [("cancelled",)]
            check_that_it_is_clean(sluice)
    assert sluice.run(DAY)["outcome"] == "published"
    assert sluice.query(
        "select state, count(*) from ops.artifacts where resource = 'flights.weather' group by 1 "
        "order by 1"
    ) == [("abandoned", 1), ("adopted", 1)]


@pytest.mark.slow
def test_a_wait_that_the_source_asked_for_is_not_waited_out(sluice: WarmSluice) -> None:
    sluice.demo.set_fault(Fault.RATE_LIMITED, resource="flights", date=DAY, seconds=200)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(sluice.call, *REQUEST)
        wait_for(
            sluice,
            "select count(*) from ops.checkpoints where stage = 'extract' and step = 'fetch' "
            "and status = 'succeeded' having count(*) = 4",
        )
        assert cancel(sluice) == "cancelled"
        assert run.result().returncode == 75
    check_that_it_is_clean(sluice)
    sluice.demo.clear()
    assert sluice.run(DAY)["outcome"] == "published"


@pytest.mark.slow
def test_once_readers_see_it_a_run_ends_published_although_it_is_cancelled(
    sluice: WarmSluice,
) -> None:
    with ThreadPoolExecutor(2) as pool, held_in_the_middle(sluice, "notify"):
        run = pool.submit(sluice.run, DAY)
        wait_until_held(sluice, "notify")
        answer = pool.submit(cancel, sluice)
        wait_for(sluice, "select 1 from ops.runs where cancel_requested_at is not null")
        let_go(sluice, "notify")
        assert run.result()["outcome"] == "published"
        assert answer.result() == "ended"
    assert sluice.query("select status, outcome from ops.runs") == [("finished", "published")]
    assert sluice.query("select kind, delivered_at is not null from ops.outbox order by kind") == [
        ("published", True),
        ("quarantined", True),
    ]

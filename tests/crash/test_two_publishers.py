"""Two runs want to publish at once: one wins, the other starts anew from what is published then."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from holding import held_at_the_start, let_go, wait_for, wait_until_held
from sabotage import Kind, Sabotage
from warm import WarmSluice

from orchestration.faultpoints import FaultPoint
from orchestration.warehouse.embedded import EmbeddedServer

FIRST, SECOND = "2013-01-01", "2013-01-02"
POINTERS = "select version_id, active_slot from ops.publication_pointer"


def wait_until_paused(home: Path) -> int:
    """The process that stopped itself in this home."""
    struck = home / "struck"
    while True:
        if struck.exists() and (words := struck.read_text().split()):
            stat = Path("/proc", words[-1], "stat").read_text()
            if stat.rpartition(")")[2].split()[0] == "T":
                return int(words[-1])
        time.sleep(0.05)


def let_leases_run_out(sluice: WarmSluice) -> None:
    with sluice.warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "update ops.leases set expires_at = clock_timestamp(), holder = 'elsewhere|1|1' "
            "where expires_at > clock_timestamp()"
        )


def check_that_both_days_are_published_and_nothing_is_left_open(sluice: WarmSluice) -> None:
    assert sluice.query("select count(*) from analytics.fct_flights") == [(842 + 943,)]
    assert set(sluice.query("select status from ops.runs")) == {("finished",)}
    assert sluice.query("select name from ops.leases where expires_at > clock_timestamp()") == []


@pytest.mark.slow
def test_the_second_of_two_publishers_waits_and_publishes_both_days_after_the_first(
    sluice: WarmSluice, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(2) as pool, held_at_the_start(sluice, "publish"):
        first = pool.submit(sluice.run, FIRST)
        wait_until_held(sluice, "publish")
        second = pool.submit(sluice.at(tmp_path / "other").run, SECOND)
        wait_for(
            sluice,
            "select 1 from ops.run_stages s where s.stage = 'extract' and s.status = 'succeeded' "
            "and not exists (select from ops.run_stages t where t.run_id = s.run_id "
            "and t.stage = 'gate')",
        )
        assert sluice.query(POINTERS) == []
        let_go(sluice, "publish")
        answers = [first.result(), second.result()]
    assert [answer["outcome"] for answer in answers] == ["published"] * 2
    assert sluice.query(
        "select version_id, previous_version_id from ops.publications order by publication_id"
    ) == [(answers[0]["version"], None), (answers[1]["version"], answers[0]["version"])]
    check_that_both_days_are_published_and_nothing_is_left_open(sluice)


@pytest.mark.slow
def test_a_publisher_that_was_outrun_between_gate_and_flip_publishes_nothing_older(
    sluice: WarmSluice, server: EmbeddedServer, tmp_path: Path
) -> None:
    """The first one is frozen until the second one has published, which took its day along."""
    pause = Sabotage(
        FaultPoint.PUBLISH_AFTER_PREPARE, "", Kind.PAUSE, sluice.warehouse.database,
        server.superuser_url("postgres"), str(server.home),
    )  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(replace(sluice, sabotage=(pause,)).run, FIRST)
        paused = wait_until_paused(sluice.home)
        try:
            [(outrun, state)] = sluice.query("select version_id, state from ops.versions")
            assert state == "passed"
            assert sluice.query(POINTERS) == []
            let_leases_run_out(sluice)
            winner = sluice.at(tmp_path / "other").run(SECOND)
            assert winner["outcome"] == "published"
            [(published, _)] = sluice.query(POINTERS)
            assert published == winner["version"] != outrun
        finally:
            os.kill(paused, signal.SIGCONT)
        last = first.result()
    # It looked again, found its day accepted before, and so all that it wanted published.
    assert (last["outcome"], last["version"]) == ("unchanged", winner["version"])
    assert sluice.query("select version_id from ops.publications") == [(winner["version"],)]
    check_that_both_days_are_published_and_nothing_is_left_open(sluice)

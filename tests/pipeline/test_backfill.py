"""Many days loaded in chunks are what a plain run would have loaded, and are seen when asked for."""

import json
import signal
import time

import pytest
from warm import WarmSluice

FIRST, SECOND = "2013-01-01", "2013-01-02"
RANGE = f"{FIRST}..{SECOND}"
ASK = ("backfill", "--pipeline", "flights", "--partitions", RANGE, "--chunk", "1")


@pytest.mark.slow
def test_what_is_loaded_is_used_by_nobody_until_it_is_published(sluice: WarmSluice) -> None:
    planned = sluice.json(*ASK, "--dry-run")
    assert [chunk["done"] for chunk in planned["chunks"]] == [False, False]
    killed = sluice.start(*ASK, "--concurrency", "2", "--json")
    deadline = time.monotonic() + 300
    while not sluice.query("select 1 from ops.artifacts where state = 'adopted'"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()

    loaded = sluice.json(*ASK)
    assert [(chunk["days"], chunk["done"]) for chunk in loaded["chunks"]] == [
        (FIRST, True),
        (SECOND, True),
    ]
    assert loaded["published"] is None
    assert sluice.query("select distinct acceptance from ops.artifacts") == [("pending",)]
    assert sluice.query("select count(*) from ops.versions") == [(0,)]

    published = sluice.json(*ASK, "--publish")["published"]
    assert (published["outcome"], published["partitions"]["extracted"]) == ("published", 0)
    [(kinds,)] = sluice.query("select array_agg(distinct trigger_kind) from ops.runs")
    assert kinds == ["backfill"]
    by_backfill = sluice.everything_published()
    plain = sluice.run(RANGE)
    assert plain["outcome"] == "unchanged"
    assert json.dumps(plain["partitions"]) == json.dumps(
        {"requested": 7, "extracted": 0, "reused": 7, "quarantined": 0}
    )
    assert sluice.everything_published() == by_backfill

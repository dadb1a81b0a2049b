"""What a pipeline says of each suite: a failed one leaves its partition out, or only warns."""

from dataclasses import replace
from pathlib import Path

import pytest
from quarantine_bench import assert_reconciled
from warm import WarmSluice

pytestmark = pytest.mark.slow

GOOD, UNKNOWN, WARNED = (f"2013-02-{day}" for day in (12, 13, 14))
BY_DAY = "select flight_date::text, count(*) from analytics.fct_flights group by 1 order by 1"
SUITES = ("marts/fct_flights", "marts/agg_carrier_daily")


def policies(sluice: WarmSluice, policy: str) -> None:
    """From now on the suites that look carriers up do this when they fail."""
    file = sluice.project / "orchestration/pipelines/flights.yml"
    said = file.read_text().partition("\npolicies:\n")[0].rstrip("\n") + "\n"
    file.write_text(said + "\npolicies:\n" + "".join(f"  {name}: {policy}\n" for name in SUITES))


def send_unknown_carrier(sluice: WarmSluice, day: str) -> None:
    changes = [({"carrier": "AA", "flight": 1}, {"carrier": "XX"})]
    sluice.demo.correct("flights", day, changes=changes)


def days(sluice: WarmSluice) -> list[str]:
    return [str(day) for day, _ in sluice.query(BY_DAY)]


def test_a_failed_suite_does_what_the_pipeline_says_of_it(
    sluice: WarmSluice, tmp_path: Path
) -> None:
    sluice = replace(sluice, project=sluice.copy_project(tmp_path / "project").project)
    policies(sluice, "leave_out")
    assert sluice.run(GOOD)["outcome"] == "published"

    # The day is built, fails, and the rest is published without it; its weather was in order.
    send_unknown_carrier(sluice, UNKNOWN)
    degraded = sluice.run(UNKNOWN)
    assert (degraded["outcome"], days(sluice)) == ("degraded", [GOOD])
    [(weather,)] = sluice.query("select count(*) from analytics.fct_weather_hourly")
    assert weather > 72
    status = sluice.json("status", degraded["run_id"])["run"]
    assert status["left_out"] == f"flights.flights/{UNKNOWN}@1"
    told = "select payload ->> 'partitions' from ops.outbox where kind = 'degraded'"
    assert sluice.query(told) == [(f'["flights.flights/{UNKNOWN}@1"]',)]
    [waiting] = sluice.json("review", "list")
    assert (waiting["kind"], waiting["run_id"]) == ("partition", degraded["run_id"])
    assert sluice.run(UNKNOWN)["outcome"] in ("degraded", "unchanged")
    assert days(sluice) == [GOOD]
    assert_reconciled(sluice.warehouse)

    # Released, it is in the next version, and the gate lets it pass.
    released = sluice.json("quarantine", "release", waiting["id"], "--reason", "a charter")
    assert len(released["released_from"]) == len(SUITES)
    assert sluice.run(UNKNOWN)["outcome"] == "published"
    assert days(sluice) == [GOOD, UNKNOWN]

    # By another policy the next such day is published, and the owner is told.
    policies(sluice, "warn")
    send_unknown_carrier(sluice, WARNED)
    warned = sluice.run(WARNED)
    assert (warned["outcome"], days(sluice)) == ("published", [GOOD, UNKNOWN, WARNED])
    verdicts = {
        row["suite"]: (row["verdict"], row["results"]["policy"])
        for row in sluice.json("gates", "show", warned["run_id"])["verdicts"]
    }
    assert [verdicts[name] for name in SUITES] == [("failed", "warn")] * 2
    assert verdicts["marts/dim_plane"][1] == "hold"
    listed = {row["suite"]: row for row in sluice.json("gates", "list", "--pipeline", "flights")}
    # What did not change was not asked again.
    assert listed["staging/flights__airports"]["run_id"] not in (None, warned["run_id"])
    for name, (verdict, policy) in verdicts.items():
        assert (listed[name]["verdict"], listed[name]["run_id"]) == (verdict, warned["run_id"])
        assert policy in (None, listed[name]["policy"])
    [(reason,)] = sluice.query("select payload ->> 'reason' from ops.outbox where kind = 'warned'")
    assert reason.startswith("marts/agg_carrier_daily, marts/fct_flights failed")

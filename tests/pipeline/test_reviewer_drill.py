"""What a data reviewer does about real dirt, from finding it to the report: commands, nothing else."""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql
from quarantine_bench import assert_reconciled
from warm import WarmSluice

from orchestration.warehouse.connections import Role

pytestmark = pytest.mark.slow

WINDY, HELD, NEXT, REJECTED = (f"2013-02-{day}" for day in (12, 13, 14, 15))
WIND = (
    "select wind_speed_mph from analytics.fct_weather_hourly "
    "where origin_airport_code = 'EWR' and observed_at = '2013-02-12 08:00Z'"
)
BY_DAY = "select flight_date::text, count(*) from analytics.fct_flights group by 1 order by 1"
UNKNOWN = "select count(*) from analytics.fct_flights where carrier_code in ('XX', 'YY')"


@pytest.fixture
def alice(sluice: WarmSluice) -> Iterator[WarmSluice]:
    """The same Sluice for somebody who has a login of her own and no other."""
    login = f"alice_{sluice.warehouse.database}"
    name = sql.Identifier(login)
    url = sluice.warehouse.url(Role.REVIEWER).replace("sluice_reviewer", login, 1)
    with sluice.warehouse.connect(autocommit=True) as owner:
        owner.execute(sql.SQL("create role {} login in role sluice_reviewer").format(name))
        yield replace(sluice, extra={"SLUICE_REVIEWER_URL": url})
        owner.execute(sql.SQL("drop role {}").format(name))


def reconciled(sluice: WarmSluice) -> dict[str, int]:
    """Counts of everything that was fetched, which agree."""
    rows = sluice.json("quarantine", "list", "--summary")
    assert all(row["reconciles"] for row in rows)
    assert_reconciled(sluice.warehouse)
    names = ("quarantined", "held", "retried")
    return {name: sum(row[name] for row in rows) for name in names}


def waiting(sluice: WarmSluice) -> list[tuple[str, str]]:
    return [(row["kind"], row["id"]) for row in sluice.json("review", "list")]


def send_unknown_carrier(sluice: WarmSluice, day: str, carrier: str) -> None:
    """One flight of the day by a carrier that the carriers lack: only the gate can know."""
    sluice.demo.correct(
        "flights", day, changes=[({"carrier": "AA", "flight": 1}, {"carrier": carrier})]
    )


def test_reviewer_drill(sluice: WarmSluice, alice: WarmSluice) -> None:
    # A wind of 1,048 miles an hour is corrected from a file.
    first = sluice.run(WINDY)
    assert first["outcome"] == "published"
    assert waiting(sluice) == []
    fix = sluice.home / "fix.json"
    fix.write_text(json.dumps({"wind_speed": 10.35702}))
    retried = alice.json(
        *("quarantine", "retry", "record-1", "--payload", str(fix), "--reason", "mistyped")
    )
    assert [record["result"] for record in retried["records"]] == ["loaded"]
    assert reconciled(sluice) == {"quarantined": 1, "held": 0, "retried": 1}

    # A day is held; the next one is good, and held with it. Readers see what they saw.
    before = sluice.query(BY_DAY)
    send_unknown_carrier(sluice, HELD, "XX")
    held = sluice.run(HELD, code=10)
    later = sluice.run(NEXT, code=10)
    assert sluice.query(BY_DAY) == before
    assert waiting(sluice) == [("version", held["version"]), ("version", later["version"])]
    [entry, _] = sluice.json("review", "list")
    assert (entry["owner"], entry["reviewer"], entry["next"]) == (
        "flight-data@example.com",
        "flight-data-review@example.com",
        f"sluice review show {held['version']}",
    )
    shown = sluice.json("review", "show", held["version"])
    [unknown] = [each for each in shown["breaches"] if "carrier_code" in each["what"]
                 and each["subject"] == "marts/fct_flights"]  # fmt: skip
    assert (unknown["partition"], unknown["failing"]) == (HELD, 1)

    # It is approved under another login: both are published, and nothing else of the rule is waived.
    answer = alice.json("review", "approve", held["version"], "--reason", "a charter flight")
    assert {(each["what"], each["partition"]) for each in answer["waived"]} == {
        (each["what"], each["partition"]) for each in shown["breaches"]
    }
    again = alice.json("review", "approve", held["version"], "--reason", "twice")
    assert again["remark"] == "it was approved before"
    assert sluice.query(BY_DAY) == before
    both = sluice.run(NEXT)
    assert (both["outcome"], both["version"]) == ("published", later["version"])
    assert [day for day, _ in sluice.query(BY_DAY)] == [WINDY, HELD, NEXT]
    assert (sluice.query(UNKNOWN), sluice.query(WIND)) == ([(1,)], [(10.35702,)])

    # Another day is rejected: it stays out, and does not come back by itself.
    send_unknown_carrier(sluice, REJECTED, "YY")
    bad = sluice.run(REJECTED, code=10)
    breaches = sluice.json("review", "show", bad["version"])["breaches"]
    assert {each["partition"] for each in breaches} == {REJECTED}
    answer = alice.json("review", "reject", bad["version"], "--reason", "there is no YY")
    assert [each["partition"] for each in answer["set_aside"]] == [f"flights.flights/{REJECTED}@1"]
    assert answer["next"] == f"sluice run --pipeline flights --partitions {REJECTED} --refresh"
    assert waiting(sluice) == [("version", held["version"])][1:]
    # Its weather was in order, and is published by whoever comes next.
    assert sluice.run(NEXT)["outcome"] == "published"
    assert [day for day, _ in sluice.query(BY_DAY)] == [WINDY, HELD, NEXT]
    repeated = sluice.run(REJECTED, code=10)
    assert repeated["failure"]["error_code"] == "partition_rejected"
    assert sluice.query(UNKNOWN) == [(1,)]
    assert reconciled(sluice) == {"quarantined": 1, "held": 0, "retried": 1}

    # Who, when and why is kept for ever, and stands in the reports.
    login = f"alice_{sluice.warehouse.database}"
    said = [
        ("quarantine_retry", "record-1", "mistyped"),
        ("review_approve", held["version"], "a charter flight"),
        ("review_reject", bad["version"], "there is no YY"),
    ]
    assert sluice.query(
        "select action, target, reason, actor from ops.operator_actions order by action_id"
    ) == [(*each, login) for each in said]
    reports = {
        name: page_text(sluice, run["run_id"])
        for name, run in {"first": first, "held": held, "both": both, "bad": bad}.items()
    }
    for name, (action, target, reason) in zip(("first", "held", "bad"), said, strict=True):
        for word in (action, target, reason, login):
            assert word in reports[name], (name, word)
    _, waivers = reports["both"].split("Waivers that the version rests on")
    assert "a charter flight" in waivers
    assert "discarded" in reports["bad"]


def page_text(sluice: Any, run: str) -> str:
    file = Path(sluice.json("report", run)["report"])
    return html.unescape(re.sub(r"<[^>]*>", " ", file.read_text()))

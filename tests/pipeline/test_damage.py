"""Every row of docs/damage.md: what the source sends is caught by the rule that the row names.

`make test` does five kinds, one for each way of being caught; `make test-campaign` does all.
"""

import html
import os
from pathlib import Path
from typing import Any

import pytest
from damage_table import Damage, read_damage
from damaging import CHANGES, FAULTS, strike
from harness import Sluice
from outcome_table import NEW_DAY

from orchestration.errors import EXIT_CODES, FailureKind

pytestmark = pytest.mark.slow

DAMAGE = read_damage()
SAMPLE = {
    "changed unit",
    "duplicated key across days",
    "stale source",
    "unknown carrier",
    "truncated last page",
}
CHOSEN = DAMAGE if os.environ.get("SLUICE_TEST_DAMAGE") else [d for d in DAMAGE if d.name in SAMPLE]
RULE = "{suite}:{type}({columns})"
Published = dict[str, list[tuple[Any, ...]]]


def test_there_are_twenty_kinds_and_each_has_a_row() -> None:
    assert sorted(damage.name for damage in DAMAGE) == sorted({*CHANGES, *FAULTS})
    assert len(DAMAGE) == 20
    assert {damage.name for damage in CHOSEN} >= SAMPLE


@pytest.mark.parametrize("damage", CHOSEN, ids=str)
def test_nothing_damaged_is_published_and_once_it_is_repaired_one_command_publishes(
    damage: Damage, after_a_good_day: Sluice, before: Published, whole: Published
) -> None:
    sluice = after_a_good_day
    last_good = published_version(sluice)
    strike(damage.name, sluice.demo, NEW_DAY)
    ran = sluice.run(NEW_DAY, code=EXIT_CODES[FailureKind(damage.stopped[0])])
    failure = ran["failure"]
    assert ran["outcome"] == ("failed" if damage.answer else "held")
    assert (failure["kind"], failure["error_code"], failure["stage"]) == damage.stopped
    assert sluice.everything_published() == before
    assert published_version(sluice) == last_good

    assert dict(broken(sluice, ran, "records", "rule, count(*)")) == damage.records
    assert {rule for (rule,) in broken(sluice, ran, "partitions", "rule")} == damage.partition
    refused = critical(sluice, ran)
    assert {rule for rule, stage in refused.items() if stage == "gate"} == damage.version
    if damage.first_rule in refused:
        assert damage.severity == "critical"
    else:
        assert damage.severity == ("error" if damage.answer else "record")
    assert_the_report_names(sluice, damage)

    sluice.demo.clear()
    options = ["--refresh"] if "--refresh" in damage.what_to_do else []
    assert sluice.run(NEW_DAY, *options)["outcome"] == "published"
    assert sluice.everything_published() == whole


def broken(sluice: Sluice, ran: dict[str, Any], table: str, columns: str) -> list[tuple[Any, ...]]:
    return sluice.query(
        f"select {columns} from quarantine.{table} where run_id = '{ran['run_id']}' group by rule"
    )


def critical(sluice: Sluice, ran: dict[str, Any]) -> dict[str, str]:
    """Critical expectations and data tests that did not hold → the stage that asked them."""
    rows = sluice.query(
        f"select stage, suite, results from ops.verdicts where run_id = '{ran['run_id']}'"
    )
    return {
        RULE.format(
            suite=verdict["suite"], type=item["type"], columns=", ".join(item["columns"])
        ): stage
        for stage, _, verdict in rows
        for item in verdict["results"]
        if not item["success"] and item["severity"] == "critical"
    }


def published_version(sluice: Sluice) -> Any:
    return sluice.query("select version_id from ops.publication_pointer")


def assert_the_report_names(sluice: Sluice, damage: Damage) -> None:
    """By the words that a reader of the page can look for: rule, or suite, kind and columns."""
    page = html.unescape(Path(sluice.json("report")["report"]).read_text("utf-8"))
    for rule in damage.rules - damage.version:
        assert rule in page, rule
    for rule in damage.version:
        suite, _, expectation = rule.partition(":")
        kind, _, columns = expectation.rstrip(")").partition("(")
        assert suite in page
        assert kind.removeprefix("expect_").replace("_", " ") in page
        assert columns in page

"""`sluice prune` between and beside real runs: nothing that a run needs, and nobody's view, is lost."""

import json
from pathlib import Path
from typing import Any

import pytest
from harness import Sluice
from warm import WarmSluice

from orchestration.errors import EXIT_BUSY

DAY = "2013-01-01"
MODEL = "dbt_project/models/marts/flights/dim_carrier.sql"
PIPELINE = "orchestration/pipelines/flights.yml"


@pytest.fixture
def frugal(sluice: WarmSluice, tmp_path: Path) -> Sluice:
    """A project that keeps nothing but what is needed."""
    copy = sluice.copy_project(tmp_path / "project")
    pipeline = copy.project / PIPELINE
    text = pipeline.read_text().replace("previous_versions: 7", "previous_versions: 0")
    pipeline.write_text(text.replace("candidate_days: 14", "candidate_days: 0"))
    return copy


def edit(sluice: Sluice, old: str, new: str) -> None:
    model = sluice.project / MODEL
    text = model.read_text()
    assert old in text
    model.write_text(text.replace(old, new))


def version_of(answer: dict[str, Any]) -> str:
    assert answer["outcome"] == "published"
    return str(answer["version"])


@pytest.mark.slow
def test_a_dropped_version_is_refused_in_words_and_built_again_when_it_is_asked_for(
    frugal: Sluice,
) -> None:
    first = version_of(frugal.run(DAY))
    rows = frugal.everything_published()
    edit(frugal, "select * from final", "select * from final where true")
    version_of(frugal.run(DAY))
    edit(frugal, "where true", "where 1 = 1")
    third = version_of(frugal.run(DAY))
    plan = frugal.json("prune", "--dry-run")
    assert [item["version_id"] for item in plan["versions"]] == [first]
    assert {item["version_id"] for item in frugal.json("versions", "list")} >= {first, third}
    done = frugal.json("prune")
    assert [item["version_id"] for item in done["versions"]] == [first]
    assert {item["relation"] for item in done["relations"]} == {
        item["relation"] for item in plan["relations"]
    }
    assert done["left"] == []
    assert frugal.everything_published() == rows
    for command in (("rollback", first, "--reason", "drill"), ("versions", "show", first)):
        error = frugal.json(*command, code=78)["error"]
        assert error["code"] == "version_dropped"
        assert "was dropped by retention on" in error["message"]

    # The checkpoint of the first run says that this version was built; it is not believed.
    edit(frugal, " where 1 = 1", "")
    again = frugal.run(DAY)
    assert version_of(again) == first
    attempts = "select attempt from ops.checkpoints where stage = 'transform' and output_ref = %s"
    assert frugal.query(attempts.replace("%s", f"'{first}'")) == [(2,)]
    assert frugal.everything_published() == rows


@pytest.mark.slow
def test_a_superseded_partition_is_fetched_again_only_by_who_asks_for_it(frugal: Sluice) -> None:
    frugal.run(DAY)
    for delay in (11, 22, 33):
        frugal.demo.correct("flights", DAY, changes=[({"flight": 1545}, {"dep_delay": delay})])
        assert frugal.run(DAY, "--refresh")["outcome"] == "published"
    rows = frugal.everything_published()
    done = frugal.json("prune")
    assert f"flights.flights/{DAY}@1" in {item["partition"] for item in done["artifacts"]}
    staged = "select count(*) from staging.flights__flights where _artifact_id = %s"
    for item in done["artifacts"]:
        assert item["rows"] > 0
        assert frugal.query(staged.replace("%s", f"'{item['artifact_id']}'")) == [(0,)]
    assert frugal.everything_published() == rows
    # A request whose partitions are gone asks the source again, and changes nothing for readers.
    repeated = frugal.run(DAY)
    assert repeated["outcome"] == "unchanged"
    assert frugal.everything_published() == rows


@pytest.mark.slow
def test_a_run_and_prunes_beside_it_come_to_what_the_run_alone_comes_to(frugal: Sluice) -> None:
    frugal.run(DAY)
    edit(frugal, "select * from final", "select * from final where true")
    frugal.run(DAY)
    process = frugal.start("run", "--pipeline", "flights", "--partitions", "2013-01-02", "--json")
    prunes = 0
    while process.poll() is None:
        # It waits for the run only so long.
        assert frugal.call("prune").returncode in {0, EXIT_BUSY}
        prunes += 1
    output, errors = process.communicate()
    assert process.returncode == 0, errors[-3000:]
    assert json.loads(output)["outcome"] == "published"
    assert prunes
    assert frugal.json("prune")["left"] == []
    [(days,)] = frugal.query("select count(distinct flight_date) from analytics.fct_flights")
    assert days == 2

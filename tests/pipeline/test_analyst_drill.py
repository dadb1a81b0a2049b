"""An analyst changes a model: predicted, previewed, built, published and taken back, with exact counts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from analyst import DAYS, DELAYED, change_the_delays, check_out, git
from harness import Sluice
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse

pytestmark = pytest.mark.slow

BEFORE = "flight_key, carrier_code, arrival_delay_minutes, departure_delay_minutes"


@pytest.fixture
def sluice(
    warehouse: Warehouse, tmp_path: Path, demo_server: DemoServer, warm_process: WarmProcess
) -> Iterator[WarmSluice]:
    """A Sluice of a fresh clone that published two days."""
    demo_server.clear()
    home = tmp_path / "home"
    home.mkdir()
    project = check_out(Sluice(warehouse, home, demo_server), tmp_path / "project")
    sluice = WarmSluice(warehouse, home, demo_server, project, process=warm_process)
    sluice.extra["SLUICE_ANALYST"] = "ada"
    assert sluice.run(DAYS)["outcome"] == "published"
    yield sluice
    demo_server.clear()


def store(sluice: Sluice) -> list[tuple[Any, ...]]:
    """Everything that the store holds, and everything that says so."""
    return sluice.query(
        "select relname, relowner::regrole::text from pg_class "
        "where relnamespace = 'store'::regnamespace order by 1"
    ) + sluice.query("select relation_name, state from ops.relations order by 1")


def segments_since(sluice: Sluice, moment: Any) -> dict[str, list[str]]:
    """model → partitions in segments that were built after the moment."""
    rows = sluice.query(
        "select r.model, array_agg(p.partition order by p.partition) from ops.segment_partitions p "
        f"join ops.relations r using (relation_name) where r.created_at > '{moment}' group by 1"
    )
    return dict(rows)


def changed(diff: dict[str, Any]) -> dict[str, Any]:
    return {model["model"]: model for model in diff["models"]}


def check_the_diff(diff: dict[str, Any], delayed: int, flights: int) -> None:
    """The edit, and nothing but the edit."""
    found = changed(diff)
    assert set(found) == {"fct_flights", "agg_carrier_daily"}
    fct, agg = found["fct_flights"], found["agg_carrier_daily"]
    assert fct["shape"]["added"] == [{"name": "is_very_late", "type": "boolean"}]
    assert (fct["shape"]["dropped"], fct["shape"]["retyped"]) == ([], [])
    assert (fct["rows_before"], fct["rows_after"]) == (flights, flights)
    assert fct["counts"] == {"added": 0, "removed": 0, "changed": delayed}
    assert (fct["key"], fct["key_source"]) == (["flight_key"], "unique_test")
    [column] = fct["columns"]
    assert (column["column"], column["rows"]) == ("arrival_delay_minutes", delayed)
    for example in column["examples"]:
        assert int(example["after"]) == int(example["before"]) + 1
    assert [part["partition"] for part in fct["partitions"]] == ["2013-01-05", "2013-01-06"]
    assert sum(part["counts"]["changed"] for part in fct["partitions"]) == delayed
    # One carrier, two days.
    assert agg["counts"] == {"added": 0, "removed": 0, "changed": 2}
    assert {change["column"] for change in agg["columns"]} <= {
        "mean_arrival_delay_minutes",
        "on_time_share",
    }
    assert sorted(diff["same"]) == ["dim_airport", "dim_carrier", "dim_plane", "fct_weather_hourly"]


def test_a_change_is_predicted_previewed_published_and_taken_back_exactly(
    sluice: WarmSluice,
) -> None:
    [(delayed,)] = sluice.query(DELAYED)
    [(flights,)] = sluice.query("select count(*) from analytics.fct_flights")
    before = sluice.everything_published()
    rows_before = sluice.query(f"select {BEFORE} from analytics.fct_flights order by 1")
    kept = store(sluice)
    change_the_delays(sluice)

    predicted = sluice.json("preview", "--dry-run")
    planned = {model["model"]: model for model in predicted["models"]}
    assert {name for name, model in planned.items() if model["action"] == "build"} == {
        "fct_flights",
        "agg_carrier_daily",
    }
    why = {name: [reason["text"] for reason in m["reasons"]] for name, m in planned.items()}
    assert why["fct_flights"] == ["SQL changed", "contract changed"]
    assert why["agg_carrier_daily"] == ["upstream model changed: fct_flights"]
    assert why["dim_carrier"] == []

    previewed = sluice.json("preview")
    check_the_diff(previewed["diff"], delayed, flights)
    assert previewed["refused"] == []
    assert {gate["suite"] for gate in previewed["gates"] if gate["judged"]} == {
        "marts/fct_flights",
        "marts/agg_carrier_daily",
        "dbt data tests",
    }
    assert sluice.everything_published() == before
    assert store(sluice) == kept
    assert sluice.query(
        "select count(*) from dev_ada.fct_flights d join analytics.fct_flights a using (flight_key) "
        "where d.arrival_delay_minutes = a.arrival_delay_minutes + 1"
    ) == [(delayed,)]

    [(moment,)] = sluice.query("select clock_timestamp()")
    candidate = sluice.run(DAYS, "--no-publish")
    assert segments_since(sluice, moment) == {
        name: model["partitions"] for name, model in planned.items() if model["action"] == "build"
    }
    assert sluice.everything_published() == before
    check_the_diff(sluice.json("diff", "published", candidate["version"]), delayed, flights)
    comment = sluice.call("diff", "published", candidate["version"], "--format", "markdown").stdout
    assert f"| `fct_flights` |  | {flights:,} | 0 | 0 | {delayed:,} | columns: 1 added |" in comment
    again = {
        model["model"]: model["action"] for model in sluice.json("preview", "--dry-run")["models"]
    }
    assert set(again.values()) == {"reuse"}

    published = sluice.run(DAYS)
    assert (published["outcome"], published["version"]) == ("published", candidate["version"])
    assert sluice.query("select count(*) from analytics.fct_flights where is_very_late") != [(0,)]
    assert sluice.query(
        "select count(*) from analytics.fct_flights where is_very_late is null"
    ) == [(0,)]
    rows_after = sluice.query(f"select {BEFORE} from analytics.fct_flights order by 1")
    assert [row for row in rows_after if row[1] != "UA"] == [
        row for row in rows_before if row[1] != "UA"
    ]
    late = [
        (old[2], new[2]) for old, new in zip(rows_before, rows_after, strict=True) if old != new
    ]
    assert len(late) == delayed
    assert all(new == old + 1 for old, new in late)

    listed = {version["version_id"]: version for version in sluice.json("versions", "list")}
    commit = git(sluice.project, "rev-parse", "HEAD")
    assert listed[published["version"]]["commit"] == commit[:10]
    assert listed[published["version"]]["dirty"] is True
    [old] = [version for name, version in listed.items() if name != published["version"]]
    assert (old["commit"], old["dirty"]) == (commit[:10], False)

    sluice.json("rollback", "--reason", "the delays were right")
    assert sluice.query(f"select {BEFORE} from analytics.fct_flights order by 1") == rows_before
    check_the_diff(sluice.json("diff", "published", published["version"]), delayed, flights)
    sluice.json("rollback", published["version"], "--reason", "they were not")
    assert sluice.query(f"select {BEFORE} from analytics.fct_flights order by 1") == rows_after
    assert sluice.json("diff", "published", published["version"])["models"] == []

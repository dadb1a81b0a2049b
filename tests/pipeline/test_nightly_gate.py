"""What the gates of two nights look at, and one suite that is evaluated by hand."""

from pathlib import Path

from harness import Sluice

FIRST, SECOND = "2013-01-05", "2013-01-06"
SUITE = "expectations/suites/marts/fct_flights.yml"


def looked_at(sluice: Sluice, run: str) -> dict[str, list[str] | None]:
    shown = sluice.json("gates", "show", run)["verdicts"]
    return {row["suite"]: row["partitions"] for row in shown if row["stage"] == "gate"}


def test_each_night_judges_its_own_day_and_an_edited_suite_everything(
    sluice: Sluice, tmp_path: Path
) -> None:
    copy = sluice.copy_project(tmp_path / "project")
    first = copy.run(FIRST)
    assert set(looked_at(copy, first["run_id"]).values()) == {None}
    second = copy.run(SECOND)
    assert looked_at(copy, second["run_id"]) == {
        "marts/fct_flights": [SECOND],
        "marts/fct_weather_hourly": [SECOND],
        "marts/agg_carrier_daily": [SECOND],
        "marts/dim_carrier": [],
        "marts/dim_airport": [],
        "marts/dim_plane": [],
        "dbt data tests": [SECOND],
    }
    assert SECOND in copy.call("gates", "show").stdout

    version, before = second["version"], copy.query("select count(*) from ops.verdicts")
    whole = copy.json("gates", "run", "fct_flights", "--version", version)
    assert (whole["suite"], whole["version"]) == ("marts/fct_flights", version)
    [keys] = [
        item
        for item in whole["verdict"]["results"]
        if item["type"] == "expect_column_values_to_be_unique"
    ]
    assert copy.query("select count(*) from analytics.fct_flights") == [(keys["element_count"],)]
    part = copy.json("gates", "run", "fct_flights", "--version", version, "--partitions", FIRST)
    assert part["verdict"]["partitions"] == [FIRST]
    assert part["verdict"]["statistics"]["unchanged"] == 2, "freshness speaks of everything"
    staged = copy.json("gates", "run", "flights__weather__volume", "--version", version)
    assert staged["verdict"]["status"] == "passed"
    assert staged["verdict"]["results"][0]["element_count"] == 2
    for wrong in (
        ("fct_flights", "--partitions", "2013-02-01"),
        ("dim_plane", "--partitions", FIRST),
        ("fct_boats",),
    ):
        assert copy.json("gates", "run", *wrong, "--version", version, code=78)["error"]
    assert copy.query("select count(*) from ops.verdicts") == before
    assert copy.query(f"select state from ops.versions where version_id = '{version}'") == [
        ("published",)
    ]

    suite = copy.project / SUITE
    suite.write_text(suite.read_text().replace("min_value: 10, max_value: 1200", "max_value: 300"))
    assert copy.json("gates", "run", "fct_flights", "--version", version, code=10)["verdict"]
    edited = copy.run(SECOND, code=10)
    assert (edited["outcome"], edited["version"]) == ("held", version)
    seen = looked_at(copy, edited["run_id"])
    assert seen["marts/fct_flights"] is None
    assert seen["marts/fct_weather_hourly"] == []
    assert copy.query("select count(*) from analytics.fct_flights") == [(keys["element_count"],)]

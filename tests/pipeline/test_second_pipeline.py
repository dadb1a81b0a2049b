"""A second pipeline, with its own mart, schedule and owner, publishes independently of the first."""

import shutil
from pathlib import Path

from harness import Sluice

PARTS = Path(__file__).parent / "second_pipeline"


def with_weather_pipeline(sluice: Sluice, folder: Path) -> Sluice:
    """A copy of the project that declares the pipeline `weather` too; no Python is touched."""
    copy = sluice.copy_project(folder)
    models = copy.project / "dbt_project" / "models" / "marts" / "weather"
    models.mkdir()
    shutil.copy(PARTS / "agg_weather_daily.sql", models)
    shutil.copy(PARTS / "_weather__models.yml", models)
    shutil.copy(PARTS / "weather.yml", copy.project / "orchestration" / "pipelines")
    shutil.copy(
        PARTS / "suite.yml",
        copy.project / "expectations" / "suites" / "marts" / "agg_weather_daily.yml",
    )
    return copy


def test_two_pipelines_publish_independently(sluice: Sluice, tmp_path: Path) -> None:
    both = with_weather_pipeline(sluice, tmp_path / "project")
    assert both.json("check")["ok"]

    weather = both.run("2013-02-12", pipeline="weather")
    assert weather["outcome"] == "published"
    assert weather["partitions"]["requested"] == 1
    assert weather["records"] == {"fetched": 72, "loaded": 71, "quarantined": 1}
    assert both.query("select sum(observations) from analytics.agg_weather_daily") == [(71,)]

    flights = both.run("2013-02-11")
    assert flights["outcome"] == "published"
    before = both.published("agg_weather_daily")
    assert both.query("select count(distinct flight_date) from analytics.fct_flights") == [(1,)]

    again = both.run("2013-02-13", pipeline="weather")
    assert again["outcome"] == "published"
    assert len(both.published("agg_weather_daily")) == len(before) + 3
    assert both.query("select pipeline, version_id from ops.publication_pointer order by 1") == [
        ("flights", flights["version"]),
        ("weather", again["version"]),
    ]
    owners = both.query("select distinct pipeline, owner from ops.outbox order by 1, 2")
    assert ("weather", "weather-desk@example.com") in owners


def test_rolling_back_one_pipeline_leaves_the_other_alone(sluice: Sluice, tmp_path: Path) -> None:
    both = with_weather_pipeline(sluice, tmp_path / "project")
    first = both.run("2013-02-12", pipeline="weather")
    both.run("2013-02-13", pipeline="weather")
    flights = both.run("2013-02-12")

    answer = both.json("rollback", "--pipeline", "weather", "--reason", "a drill")
    assert (answer["outcome"], answer["version"]) == ("published", first["version"])
    assert both.query("select count(*) from analytics.agg_weather_daily") == [(3,)]
    assert both.json("status")["published"][0]["version"] == flights["version"]

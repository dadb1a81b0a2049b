"""A small request from nothing to publication, and what happens when it is made again."""

from harness import Sluice

DAYS = "2013-01-01..2013-01-02"


def test_a_request_is_published_and_the_same_request_changes_nothing(sluice: Sluice) -> None:
    first = sluice.run(DAYS)
    assert first["outcome"] == "published"
    assert first["failure"] is None
    assert first["partitions"] == {"requested": 7, "extracted": 7, "reused": 0, "quarantined": 0}
    assert [stage["stage"] for stage in first["stages"]] == [
        "initialize",
        "extract",
        "validate",
        "transform",
        "gate",
        "publish",
        "notify",
    ]
    assert sluice.query("select count(*) from analytics.fct_flights") == [(842 + 943,)]

    second = sluice.run(DAYS)
    assert (second["run_id"], second["outcome"]) == (first["run_id"], "unchanged")
    assert second["partitions"]["reused"] == 7
    assert {stage["status"] for stage in second["stages"]} == {"reused"}

    # From the rows that a partition was loaded from to the views that show them, and back.
    traced = sluice.json("lineage", "flights.flights/2013-01-02")
    assert {item["view"] for item in traced["published"]} >= {
        "analytics.fct_flights",
        "analytics.agg_carrier_daily",
    }
    [version] = sluice.json("lineage", "fct_flights")["versions"]
    [model] = version["models"]
    [partition] = [
        item
        for segment in model["segments"]
        for item in segment["partitions"]
        if item["partition"] == "2013-01-02"
    ]
    assert partition["rows"] == 943
    assert "flights.flights/2013-01-02@1" in partition["artifacts"]
    assert all(item["source_ref"] for item in version["artifacts"])

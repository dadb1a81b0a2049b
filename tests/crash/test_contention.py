"""Requests that are made at the same time end well, and nothing is loaded twice."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from harness import Sluice

LOADED = "select partition, state, count(*) from ops.artifacts group by 1, 2 order by 1"
EIGHT = [
    *("2013-01-01..2013-01-04", "2013-01-01..2013-01-02", "2013-01-02..2013-01-03", "2013-01-01"),
    *("2013-01-03..2013-01-04", "2013-01-01..2013-01-03", "2013-01-02..2013-01-04", "2013-01-04"),
]


def run_at_once(sluice: Sluice, folder: Path, requests: list[str]) -> list[Any]:
    """What each prints, in order; every one is a process of its own with a home of its own."""
    homes = [sluice.at(folder / str(number)) for number in range(len(requests))]
    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(lambda home, days: home.run(days), homes, requests))


@pytest.mark.slow
def test_one_request_made_twice_at_once_is_one_run(sluice: Sluice, tmp_path: Path) -> None:
    answers = run_at_once(sluice, tmp_path, ["2013-01-01..2013-01-02"] * 2)
    assert sorted(answer["outcome"] for answer in answers) == ["published", "unchanged"]
    assert len({answer["run_id"] for answer in answers}) == 1
    assert len({answer["version"] for answer in answers}) == 1
    assert sluice.query("select status, outcome from ops.runs") == [("finished", "published")]
    assert sluice.query("select count(*) from ops.publications") == [(1,)]
    assert {(state, count) for _, state, count in sluice.query(LOADED)} == {("adopted", 1)}
    assert sluice.query("select count(*) from analytics.fct_flights") == [(842 + 943,)]


@pytest.mark.slow
def test_eight_overlapping_requests_at_once_load_each_partition_once_and_publish_all(
    sluice: Sluice, tmp_path: Path
) -> None:
    answers = run_at_once(sluice, tmp_path, EIGHT)
    assert {answer["outcome"] for answer in answers} <= {"published", "unchanged"}
    assert "published" in {answer["outcome"] for answer in answers}
    # Four days of flights and of weather, and three snapshots; nothing was given up on the way.
    assert {(state, count) for _, state, count in sluice.query(LOADED)} == {("adopted", 1)}
    assert len(sluice.query(LOADED)) == 4 + 4 + 3
    assert sum(answer["partitions"]["extracted"] for answer in answers) == 4 + 4 + 3
    unknown = (
        "select count(*) from staging.flights__{} where _artifact_id not in "
        "(select artifact_id from ops.artifacts where state = 'adopted')"
    )
    for table in ("flights", "weather", "planes", "airlines", "airports"):
        assert sluice.query(unknown.format(table)) == [(0,)]

    assert set(sluice.query("select status from ops.runs")) == {("finished",)}
    [(version, days)] = sluice.query(
        "select p.version_id, count(*) from ops.publication_pointer p join ops.versions v "
        "using (version_id) join ops.manifest_artifacts m using (manifest_id) "
        "where m.resource = 'flights.flights' group by 1"
    )
    assert days == 4
    assert version in {answer["version"] for answer in answers}
    assert sluice.query("select count(*) from analytics.fct_flights") == [(842 + 943 + 914 + 915,)]
    assert sluice.query("select 1 from ops.attempts where status <> 'succeeded'") == []
    assert sluice.query("select name from ops.leases where expires_at > clock_timestamp()") == []

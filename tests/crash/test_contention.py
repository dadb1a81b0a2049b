"""Requests that are made at the same time end well, and nothing is loaded twice."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import Sluice

LOADED = "select partition, state, count(*) from ops.artifacts group by 1, 2 order by 1"


def finish(process: "subprocess.Popen[str]") -> Any:
    output, errors = process.communicate(timeout=280)
    assert process.returncode == 0, f"exit {process.returncode}\n{output}\n{errors[-3000:]}"
    return json.loads(output)


def start(sluice: Sluice, partitions: str) -> "subprocess.Popen[str]":
    return sluice.start("run", "--pipeline", "flights", "--partitions", partitions, "--json")


@pytest.mark.slow
def test_one_request_made_twice_at_once_is_one_run(sluice: Sluice, tmp_path: Path) -> None:
    processes = [
        start(home, "2013-01-01..2013-01-02") for home in (sluice, sluice.at(tmp_path / "other"))
    ]
    answers = [finish(process) for process in processes]
    assert sorted(answer["outcome"] for answer in answers) == ["published", "unchanged"]
    assert len({answer["run_id"] for answer in answers}) == 1
    assert len({answer["version"] for answer in answers}) == 1
    assert sluice.query("select status, outcome from ops.runs") == [("finished", "published")]
    assert sluice.query("select count(*) from ops.publications") == [(1,)]
    assert {(state, count) for _, state, count in sluice.query(LOADED)} == {("adopted", 1)}
    assert sluice.query("select count(*) from analytics.fct_flights") == [(842 + 943,)]


@pytest.mark.slow
def test_overlapping_requests_at_once_load_each_partition_once_and_publish_all(
    sluice: Sluice, tmp_path: Path
) -> None:
    processes = [
        start(sluice, "2013-01-01..2013-01-02"),
        start(sluice.at(tmp_path / "other"), "2013-01-02..2013-01-03"),
    ]
    answers = [finish(process) for process in processes]
    assert {answer["outcome"] for answer in answers} <= {"published", "unchanged"}
    assert "published" in {answer["outcome"] for answer in answers}
    assert {(state, count) for _, state, count in sluice.query(LOADED)} == {("adopted", 1)}
    assert len(sluice.query(LOADED)) == 3 + 3 + 3
    assert sum(answer["partitions"]["extracted"] for answer in answers) == 9
    assert sluice.query("select count(*) from analytics.fct_flights") == [(842 + 943 + 914,)]
    assert sluice.query("select name from ops.leases where expires_at > clock_timestamp()") == []

"""What a prune removes from this machine's disk."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orchestration.runs.home_folder import tidy_home
from orchestration.runs.work_folder import work_folder


def write(path: Path, text: str, *, days_ago: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    moment = (datetime.now(UTC) - timedelta(days=days_ago)).timestamp()
    os.utime(path, (moment, moment))
    return path


def line(days_ago: float) -> str:
    moment = datetime.now(UTC) - timedelta(days=days_ago)
    return json.dumps({"event": "stage started", "timestamp": f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"})


def test_a_log_of_more_than_a_day_is_set_aside_and_old_ones_go(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write(logs / "sluice.jsonl", f"{line(3)}\n{line(0)}\n", days_ago=0)
    old = write(logs / "sluice-2024-01-01T000000.jsonl", line(40), days_ago=31)
    young = write(logs / "sluice-2024-02-01T000000.jsonl", line(20), days_ago=29)
    other = write(logs / "demo_api.log", "started", days_ago=400)
    assert tidy_home(tmp_path, log_days=30, dry_run=True) == [old.name]
    assert old.exists()
    assert tidy_home(tmp_path, log_days=30) == [old.name]
    assert not old.exists()
    [aside] = set(logs.iterdir()) - {young, other}
    assert aside.name.startswith("sluice-")
    assert len(aside.read_text().splitlines()) == 2


def test_a_young_an_empty_or_a_damaged_log_stays_where_it_is(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "sluice.jsonl"
    for text in (f"{line(0.5)}\n", "", "no json\n", "{}\n"):
        write(log, text, days_ago=90)
        assert tidy_home(tmp_path, log_days=30) == []
        assert log.read_text() == text


def test_dead_work_folders_and_old_pages_go_and_living_ones_stay(tmp_path: Path) -> None:
    dead = tmp_path / "work" / "dead"
    dead.mkdir(parents=True)
    old = write(tmp_path / "spool" / "a.arrow", "", days_ago=3)
    young = write(tmp_path / "spool" / "b.arrow", "", days_ago=1)
    dead_again = tmp_path / "work" / "dead again"
    with work_folder(tmp_path / "work") as living:
        dead_again.mkdir()
        tidy_home(tmp_path, log_days=30)
        assert living.exists()
    assert not dead.exists()
    assert not dead_again.exists()
    assert (old.exists(), young.exists()) == (False, True)


def test_a_home_that_is_empty_or_missing_is_no_problem(tmp_path: Path) -> None:
    assert tidy_home(tmp_path / "nowhere", log_days=30) == []
    assert not (tmp_path / "nowhere").exists()

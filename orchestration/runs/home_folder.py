"""What runs left on this machine's disk and nobody needs: logs and pages that are old, dead folders.

Nothing in it is needed to resume, so losing too much costs time and never data.
"""

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ingestion.spool import sweep_spool
from orchestration.runs.work_folder import sweep_work_folders

_LOG = "sluice.jsonl"
_SPOOL_AGE = timedelta(days=2)
_LOG_SPAN = timedelta(days=1)


def tidy_home(home: Path, *, log_days: int, dry_run: bool = False) -> list[str]:
    """Sets a log of more than a day aside under its date and deletes old ones; sweeps the rest.

    Returns the names of the log files that went (or, in a dry run, would go).
    """
    old = [path for path in _set_aside(home / "logs") if _is_older(path, timedelta(days=log_days))]
    if dry_run:
        return [path.name for path in old]
    for path in old:
        path.unlink(missing_ok=True)
    _begin_new_log(home / "logs" / _LOG)
    sweep_spool(home / "spool", _SPOOL_AGE)
    sweep_work_folders(home / "work")
    return [path.name for path in old]


def _set_aside(folder: Path) -> list[Path]:
    return sorted(folder.glob("sluice-*.jsonl"))


def _is_older(path: Path, age: timedelta) -> bool:
    try:
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return False
    return datetime.now(UTC) - changed > age


def _begin_new_log(log: Path) -> None:
    """Renames the log; processes that have it open go on writing into the renamed file."""
    began = _first_moment(log)
    if began is None or datetime.now(UTC) - began < _LOG_SPAN:
        return
    with suppress(FileNotFoundError):
        log.rename(log.with_name(f"sluice-{datetime.now(UTC):%Y-%m-%dT%H%M%S}.jsonl"))


def _first_moment(log: Path) -> datetime | None:
    try:
        with log.open(encoding="utf-8") as lines:
            return datetime.fromisoformat(json.loads(next(lines, "{}"))["timestamp"])
    except (OSError, ValueError, KeyError):
        return None

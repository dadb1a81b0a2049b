"""What is usual for a partition, from what was counted when earlier ones were loaded; no row is read.

A day is compared with the same weekday of the eight weeks before it, a snapshot with the eight
before it: as many look-ups whether the history is a month or ten years. Only accepted partitions
count, and those that are judged in the same run, so that a long backfill has a history too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from statistics import median

import psycopg
from psycopg.rows import class_row

from expectations.volume import Usual
from ingestion.partitions import SNAPSHOT
from orchestration.sql.queries import query
from orchestration.warehouse.artifacts import Artifact

LOOKED_AT = 8
# Fewer are chance: a holiday and the week after it would already decide.
ENOUGH = 3
_WEEK = timedelta(weeks=1)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Known:
    """An earlier window: the artifact that is in use for it, its rows, and its first fetch."""

    window_name: str
    artifact_id: str
    loaded: int
    first_fetched_at: datetime | None

    @property
    def hours(self) -> float | None:
        """Hours from the end of the day, taken in UTC, to its first fetch."""
        if self.first_fetched_at is None:
            return None
        return (self.first_fetched_at - _end_of(self.window_name)) / timedelta(hours=1)


def usual_volumes(
    connection: psycopg.Connection, artifacts: Sequence[Artifact]
) -> dict[str, Usual]:
    """artifact id → what is usual for it, of artifacts of one resource. Any role that reads ops."""
    days = [item for item in artifacts if item.window_name != SNAPSHOT]
    known = _known(connection, days, {w for item in days for w in _looked_at(item.window_name)})
    usual: dict[str, Usual] = {item.artifact_id: _usual_day(item, known) for item in days}
    for item in artifacts:
        if item.window_name == SNAPSHOT:
            rows = connection.execute(
                query("history_snapshots"),
                {"artifact_id": item.artifact_id, "looked_at": LOOKED_AT},
            ).fetchall()
            usual[item.artifact_id] = Usual(_median(loaded for (loaded,) in rows))
    return usual


def days_before(connection: psycopg.Connection, artifacts: Sequence[Artifact]) -> dict[str, str]:
    """Artifact of the day before → partition that follows it, for each of one resource that has one."""
    days = [item for item in artifacts if item.window_name != SNAPSHOT]
    before = {item.partition: str(date.fromisoformat(item.window_name) - _DAY) for item in days}
    known = _known(connection, days, set(before.values()))
    return {
        known[window].artifact_id: partition
        for partition, window in before.items()
        if window in known
    }


def _known(
    connection: psycopg.Connection, judged: Sequence[Artifact], windows: set[str]
) -> dict[str, Known]:
    """Those of the windows that have an accepted artifact, or one that is judged now."""
    if not windows:
        return {}
    known = {
        item.window_name: Known(
            item.window_name, item.artifact_id, item.loaded or 0, item.fetched_at
        )
        for item in judged
        if item.window_name in windows
    }
    with connection.cursor(row_factory=class_row(Known)) as cursor:
        cursor.execute(
            query("history_windows"),
            {
                "pipeline": judged[0].pipeline,
                "resource": judged[0].resource,
                "windows": sorted(windows),
            },
        )
        return known | {found.window_name: found for found in cursor}


def _looked_at(window: str) -> list[str]:
    """The window itself, for its first fetch, and the same weekday of the weeks before it."""
    day = date.fromisoformat(window)
    return [str(day - weeks * _WEEK) for weeks in range(LOOKED_AT + 1)]


def _usual_day(artifact: Artifact, known: Mapping[str, Known]) -> Usual:
    itself, *weeks = _looked_at(artifact.window_name)
    past = [known[window] for window in weeks if window in known]
    came = known[itself]
    # A correction comes whenever the source changes its mind.
    is_first = artifact.fetched_at is None or artifact.fetched_at == came.first_fetched_at
    usual_hours = _median(found.hours for found in past if found.hours is not None)
    late = None
    if is_first and usual_hours is not None and came.hours is not None:
        late = came.hours - usual_hours
    return Usual(_median(found.loaded for found in past), late)


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return float(median(found)) if len(found) >= ENOUGH else None


def _end_of(window: str) -> datetime:
    return datetime.combine(date.fromisoformat(window) + _DAY, time(), UTC)

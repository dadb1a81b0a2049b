"""Nights of a schedule: the clock is a parameter, every command is the real one, the pipeline is small."""

import shlex
import shutil
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from harness import CHECKOUT, Moment, Sluice

from orchestration.errors import EXIT_BUSY, EXIT_CODES, FailureKind

PIPELINE = "weather"
NEW_YORK = ZoneInfo("America/New_York")
SOURCE_FAILED = EXIT_CODES[FailureKind.SOURCE]


class Incident(Enum):
    """What a night brings beside the schedule."""

    CALM = auto()
    TWICE = auto()
    """The cron job fires again and again."""
    AT_ONCE = auto()
    """Two cron jobs fire at the same moment."""
    OUTAGE = auto()
    """The source is away until noon; the cron job is repeated meanwhile."""
    LONG_OUTAGE = auto()
    """The source is away, and stays so until the noon of the next day."""
    KILLED = auto()
    """The worker dies while it transforms; the next firing goes on."""
    BACKFILL = auto()
    """Older days are loaded in parallel and published."""


@dataclass
class Nights:
    """One warehouse, night after night; `older` are the days of a backfill (`A..B`)."""

    sluice: Sluice
    first: date
    older: str

    def live(self, incidents: Iterable[Incident]) -> None:
        """One incident a night."""
        left: list[str] = []
        for number, incident in enumerate(incidents):
            left = self._night(number, incident, left)
        assert not left

    def add_older_days(self) -> None:
        """What a backfill brings, without one."""
        assert (
            self._run("--partitions", self.older, "--as-of", self.at(0))["outcome"] == "published"
        )

    def at(self, number: int, hours: float = 0) -> str:
        """So many hours after six in the morning of that night's end, on the clocks of New York."""
        morning = datetime.combine(self.first, datetime.min.time(), NEW_YORK)
        tick = morning + timedelta(days=number, hours=6)
        return (tick.astimezone(UTC) + timedelta(hours=hours)).isoformat()

    def _night(self, number: int, incident: Incident, left: list[str]) -> list[str]:
        """Returns the runs that an outage leaves behind."""
        match incident:
            case Incident.CALM:
                self._publish(number)
            case Incident.TWICE:
                self._publish(number)
                for hours in (0, 0.5, 5):
                    assert self._due(number, hours)["outcome"] == "unchanged"
            case Incident.AT_ONCE:
                self._publish_at_once(number)
            case Incident.OUTAGE:
                self._fail(number, 0, 1)
                runs = {self._publish(number, 6)["run_id"]}
                assert runs == {self._due(number, 7)["run_id"]}
            case Incident.LONG_OUTAGE:
                return [*left, *self._fail(number, 0, 6)]
            case Incident.KILLED:
                moment = Moment(0.0, "transform")
                assert self.sluice.kill_at(moment, *self._command(number, 0))
                self._publish(number, 0.5)
            case Incident.BACKFILL:
                self._publish_beside_a_backfill(number)
        for run in left:
            self._resume(run)
        return []

    def _command(self, number: int, hours: float) -> tuple[str, ...]:
        return ("run", "--pipeline", PIPELINE, "--due", "--as-of", self.at(number, hours))

    def _run(self, *options: str, code: int = 0) -> dict[str, Any]:
        answer: dict[str, Any] = self.sluice.json(
            "run", "--pipeline", PIPELINE, *options, code=code
        )
        return answer

    def _due(self, number: int, hours: float = 0, code: int = 0) -> dict[str, Any]:
        return self._run("--due", "--as-of", self.at(number, hours), code=code)

    def _publish(self, number: int, hours: float = 0) -> dict[str, Any]:
        answer = self._due(number, hours)
        assert answer["outcome"] == "published", answer
        return answer

    def _publish_at_once(self, number: int) -> None:
        with ThreadPoolExecutor(2) as pool:
            commands = [
                pool.submit(self.sluice.call, *self._command(number, 0), "--json") for _ in range(2)
            ]
            codes = sorted(command.result().returncode for command in commands)
        assert codes in ([0, 0], [0, EXIT_BUSY]), [item.result().stderr for item in commands]

    def _fail(self, number: int, *hours: float) -> list[str]:
        """The firings of an outage; returns their one run."""
        self.sluice.demo.set_fault("server_error")
        failed = [self._due(number, after, code=SOURCE_FAILED)["run_id"] for after in hours]
        self.sluice.demo.clear()
        assert len(set(failed)) == 1
        return failed[:1]

    def _resume(self, run: str) -> None:
        """Types what `sluice status` says is to be typed."""
        program, *command = shlex.split(self.sluice.json("status", run)["run"]["next"])
        assert program == "sluice"
        assert self.sluice.json(*command)["outcome"] == "published"

    def _publish_beside_a_backfill(self, number: int) -> None:
        ask = ("--partitions", self.older, "--chunk", "5", "--concurrency", "2", "--publish")
        with ThreadPoolExecutor(1) as pool:
            backfill: Future[Any] = pool.submit(
                self.sluice.json,
                "backfill",
                "--pipeline",
                PIPELINE,
                *ask,
                "--as-of",
                self.at(number),
            )
            while not backfill.done() and not self.sluice.query(
                "select 1 from ops.artifacts a join ops.runs r using (run_id) "
                "where r.trigger_kind = 'backfill' and a.state = 'loading'"
            ):
                time.sleep(0.05)
            assert not backfill.done(), backfill.result()
            self._publish(number)
            assert backfill.result()["published"]["outcome"] == "published"

    def routine_publications(self) -> list[tuple[str, str, int]]:
        """(tick, day that it asked for, how often it was published), in order of ticks."""
        return [
            (str(tick), str(day), int(times))
            for tick, day, times in self.sluice.query(
                "select r.trigger_key, min(p.window_name), count(distinct publication_id) "
                "from ops.publications join ops.runs r using (run_id) "
                "join ops.run_partitions p using (run_id) "
                "where r.trigger_kind = 'schedule' and p.resource = 'flights.weather' "
                "group by 1 order by 1"
            )
        ]


def small_project(folder: Path) -> Path:
    """The pipeline files, models and suites of a small pipeline, without any Python."""
    pipelines = folder / "orchestration" / "pipelines"
    pipelines.mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "pipeline" / "nights" / "weather.yml", pipelines)
    ignored = shutil.ignore_patterns("target", "logs", "profiles.yml")
    shutil.copytree(CHECKOUT / "dbt_project", folder / "dbt_project", ignore=ignored)
    shutil.copytree(CHECKOUT / "expectations" / "suites", folder / "expectations" / "suites")
    return folder

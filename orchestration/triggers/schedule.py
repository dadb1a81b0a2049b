"""What a schedule asks for at a moment: a pure function of the pipeline's policy and the time."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from orchestration.errors import ConfigurationError
from orchestration.model import TriggerKind
from orchestration.pipelines.spec import PipelineSpec, Schedule
from orchestration.triggers.request import RunRequest


def latest_tick(schedule: Schedule, moment: datetime) -> datetime:
    """The last time at or before `moment` at which the schedule fires, in its own time zone."""
    local = moment.astimezone(ZoneInfo(schedule.time_zone))
    # The iterator excludes its start and knows no seconds.
    start = local.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return next(CronSim(schedule.cron, start, reverse=True))


def closed_days(schedule: Schedule, tick: datetime) -> list[str]:
    """The days that the tick asks for: the last closed ones, yesterday at the latest."""
    today: date = tick.date()
    return [(today - timedelta(days=ago)).isoformat() for ago in range(schedule.days, 0, -1)]


def last_closed_day(pipeline: PipelineSpec, moment: datetime) -> date:
    """Yesterday at `moment`, in the zone that the pipeline's days are in (UTC if it names none)."""
    zone = pipeline.schedule.time_zone if pipeline.schedule else "UTC"
    return moment.astimezone(ZoneInfo(zone)).date() - timedelta(days=1)


def longest_wait(schedule: Schedule, *, since_midnight: bool = False) -> tuple[datetime, datetime]:
    """The two ticks in a row that are furthest apart, of the four years from 2025.

    With `since_midnight` the first moment is the midnight before that tick: the end of the last day
    that it asks for. Raises `ConfigurationError` for a schedule that never fires twice.
    """
    zone = ZoneInfo(schedule.time_zone)
    start = datetime(2025, 1, 1, tzinfo=zone)
    waits: list[tuple[datetime, datetime]] = []
    try:
        first = next(CronSim(schedule.cron, start - timedelta(minutes=1)))
        while not waits or first < start.replace(year=2029):
            midnight = first.replace(hour=0, minute=0)
            last = next(CronSim(schedule.cron, midnight + timedelta(days=1), reverse=True))
            following = next(CronSim(schedule.cron, last))
            if since_midnight:
                waits.append((midnight, following))
            else:
                # Every day on which it fires has the same times.
                within = [] if waits else _ticks(schedule, first, last)
                waits += [*pairwise(within), (last, following)]
            first = following
    except (CronSimError, StopIteration):
        raise ConfigurationError(
            f"the schedule {schedule.cron!r} does not fire; correct its day and month",
            code="schedule_never_fires",
        ) from None
    return max(waits, key=lambda wait: hours_between(*wait))


def hours_between(earlier: datetime, later: datetime) -> float:
    """Hours that pass, whatever the clocks on the wall do meanwhile."""
    return (later.astimezone(UTC) - earlier.astimezone(UTC)).total_seconds() / 3600


def _ticks(schedule: Schedule, first: datetime, last: datetime) -> list[datetime]:
    following = takewhile(lambda tick: tick <= last, CronSim(schedule.cron, first))
    return [first, *following]


def scheduled_request(
    pipeline: PipelineSpec, moment: datetime, *, publish: bool = True
) -> RunRequest:
    """The request of the pipeline's latest tick; the same until the next one.

    Raises `ConfigurationError` for a pipeline without a schedule.
    """
    if pipeline.schedule is None:
        raise ConfigurationError(
            f"the pipeline {pipeline.name} has no schedule; add one to its file, or say which days "
            "with --partitions",
            code="no_schedule",
        )
    tick = latest_tick(pipeline.schedule, moment)
    return RunRequest(
        pipeline=pipeline.name,
        days=closed_days(pipeline.schedule, tick),
        trigger_kind=TriggerKind.SCHEDULE,
        # A request that does not publish is another one, as it is for a manual request.
        trigger_key=f"{tick.astimezone(UTC):%Y-%m-%dT%H%MZ}" + ("" if publish else "+no-publish"),
        fetch_snapshots=True,
        publish=publish,
        as_of=moment,
    )

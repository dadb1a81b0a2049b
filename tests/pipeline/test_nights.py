"""Many nights with outages, repeats, a change of the clock and a backfill end as calm ones do."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from clones import cloned_warehouse
from nights import NEW_YORK, Incident, Nights, small_project
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.embedded import EmbeddedServer

pytestmark = pytest.mark.slow

# The clocks of New York were set forward on 10 March 2013, at two in the morning.
CHANGE = date(2013, 3, 10)
MONTH = [Incident.CALM] * 30
for number, incident in {
    1: Incident.TWICE,
    3: Incident.OUTAGE,
    5: Incident.AT_ONCE,
    7: Incident.KILLED,
    9: Incident.BACKFILL,
    12: Incident.AT_ONCE,
    13: Incident.OUTAGE,
    14: Incident.TWICE,
    17: Incident.LONG_OUTAGE,
    18: Incident.OUTAGE,
    21: Incident.OUTAGE,
    22: Incident.OUTAGE,
    24: Incident.LONG_OUTAGE,
    25: Incident.AT_ONCE,
    28: Incident.KILLED,
    29: Incident.TWICE,
}.items():
    MONTH[number] = incident


@pytest.fixture
def two(
    server: EmbeddedServer, template: str, warm_process: WarmProcess, tmp_path: Path
) -> Iterator[tuple[WarmSluice, WarmSluice]]:
    """Two warehouses under the same code, each with a source of its own; there is nothing in them yet."""
    extra = {
        "SLUICE_PROJECT_DIR": str(small_project(tmp_path / "small")),
        "SLUICE_FETCH_ATTEMPTS": "2",
    }
    with ExitStack() as stack:

        def open_one(name: str) -> WarmSluice:
            warehouse = stack.enter_context(cloned_warehouse(server, template))
            demo = stack.enter_context(DemoServer())
            home = tmp_path / name
            home.mkdir()
            return WarmSluice(warehouse, home, demo, extra=dict(extra), process=warm_process)

        yield open_one("troubled"), open_one("calm")


def live_both(
    two: tuple[WarmSluice, WarmSluice], first: date, incidents: Sequence[Incident]
) -> None:
    """The same nights, troubled and calm; `first` is the morning of the first one."""
    troubled, calm = (Nights(sluice, first, "2013-01-25..2013-02-03") for sluice in two)
    with ThreadPoolExecutor(1) as pool:
        undisturbed = pool.submit(calm.live, [Incident.CALM] * len(incidents))
        troubled.live(incidents)
        undisturbed.result()
    if Incident.BACKFILL in incidents:
        calm.add_older_days()

    mornings = [
        datetime(day.year, day.month, day.day, 6, tzinfo=NEW_YORK)
        for day in (first + timedelta(days=number) for number in range(len(incidents)))
    ]
    once_a_day = [
        (f"{tick.astimezone(UTC):%Y-%m-%dT%H%MZ}", f"{tick - timedelta(days=1):%Y-%m-%d}", 1)
        for tick in mornings
    ]
    assert troubled.routine_publications() == once_a_day
    assert calm.routine_publications() == once_a_day
    published = calm.sluice.everything_published()
    # Three airports, nearly every hour.
    assert len(published["fct_weather_hourly"]) > 3 * 20 * len(incidents)
    assert troubled.sluice.everything_published() == published
    assert troubled.sluice.query(
        "select count(*) from ops.runs where trigger_kind = 'schedule'"
    ) == [(len(incidents),)]


def test_an_outage_and_two_cron_jobs_at_once_around_a_change_of_the_clock(
    two: tuple[WarmSluice, WarmSluice],
) -> None:
    live_both(two, CHANGE - timedelta(days=1), [Incident.AT_ONCE, Incident.OUTAGE])


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_thirty_nights_of_trouble_publish_once_a_day_what_calm_ones_publish(
    two: tuple[WarmSluice, WarmSluice],
) -> None:
    live_both(two, CHANGE - timedelta(days=13), MONTH)

"""Which days a schedule asks for, across time zones and changes of the clock."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.pipelines.spec import Schedule
from orchestration.triggers.schedule import closed_days, latest_tick

NIGHTLY = Schedule(cron="0 6 * * *", time_zone="America/New_York", days=1)


@pytest.mark.parametrize(
    ("moment", "tick", "days"),
    [
        ("2013-03-02T11:00Z", "2013-03-02T11:00Z", ["2013-03-01"]),
        ("2013-03-02T10:59Z", "2013-03-01T11:00Z", ["2013-02-28"]),
        # The clocks change on 10 March: six in the morning is an hour earlier in UTC.
        ("2013-03-10T10:30Z", "2013-03-10T10:00Z", ["2013-03-09"]),
    ],
)
def test_a_tick_asks_for_the_last_closed_day(moment: str, tick: str, days: list[str]) -> None:
    found = latest_tick(NIGHTLY, datetime.fromisoformat(moment))
    assert found.astimezone(UTC) == datetime.fromisoformat(tick)
    assert closed_days(NIGHTLY, found) == days


@given(st.datetimes(datetime(2013, 1, 2), datetime(2014, 1, 1), timezones=st.just(UTC)))
def test_a_tick_is_never_in_the_future_and_never_more_than_a_day_old(moment: datetime) -> None:
    found = latest_tick(NIGHTLY, moment)
    assert timedelta(0) <= moment - found <= timedelta(hours=25)
    assert latest_tick(NIGHTLY, found) == found

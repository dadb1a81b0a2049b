"""The dirt that the true data of 2013 has, handled as a person would want it.

The last days of December and the day on which the clocks went back are in `make test`; the whole year
is one run, in `make test-campaign`.
"""

from typing import Any

import pytest
from harness import Sluice

pytestmark = pytest.mark.slow

VOLUME = "flights__weather__volume:expect_column_values_to_be_between"
OF_DAY = "(observed_at at time zone 'America/New_York')::date"


def entries(sluice: Sluice, kind: str) -> list[dict[str, Any]]:
    rows = sluice.json("quarantine", "list", "--limit", "1000")
    return [row for row in rows if row["id"].startswith(kind)]


def assert_only_the_weather_of_the_last_day_is_held_back(
    sluice: Sluice, ran: dict[str, Any]
) -> None:
    assert (ran["outcome"], ran["failure"]) == ("degraded", None)
    held = entries(sluice, "partition")
    assert {row["partition"] for row in held} == {"flights.weather/2013-12-31@1"}
    assert f"{VOLUME}(row_count)" in {row["rule"] for row in held}
    assert {row["owner"] for row in held} == {"weather-data@example.com"}
    assert sluice.query(
        "select distinct owner from ops.outbox where kind = 'degraded' and delivered_at is not null"
    ) == [("weather-data@example.com",)]
    assert sluice.query(
        "select (select count(*) from analytics.fct_flights where flight_date = '2013-12-31'), "
        f"(select count(*) from analytics.fct_weather_hourly where {OF_DAY} = '2013-12-31')"
    ) == [(776, 0)]


def assert_the_hour_that_came_twice_is_there_twice(sluice: Sluice) -> None:
    assert sluice.query(
        "select origin_airport_code, count(*), count(distinct observed_at) "
        f"from analytics.fct_weather_hourly where {OF_DAY} = '2013-11-03' "
        "and extract(hour from observed_at at time zone 'America/New_York') = 1 "
        "group by 1 order by 1"
    ) == [("EWR", 2, 2), ("JFK", 2, 2), ("LGA", 2, 2)]
    rules = {row["rule"] for kind in ("record", "partition") for row in entries(sluice, kind)}
    assert not any("duplicate" in rule or "unique" in rule for rule in rules)


def flights_to_places_unknown(sluice: Sluice, run: str) -> int:
    """How many the gate of the run warned of; they are published."""
    verdicts = sluice.json("gates", "show", run)["verdicts"]
    [found] = [
        item
        for row in verdicts
        if row["suite"] == "marts/fct_flights"
        for item in row["results"]["results"]
        if item["columns"] == ["destination_airport_code"] and "lacks" in item["reason"]
    ]
    assert (found["success"], found["severity"]) == (False, "warning")
    assert sluice.query(
        "select array_agg(distinct destination_airport_code order by destination_airport_code) "
        "from analytics.fct_flights where destination_airport_code not in "
        "(select airport_code from analytics.dim_airport)"
    ) == [(["BQN", "PSE", "SJU", "STT"],)]
    return int(found["unexpected_count"])


def assert_midnight_is_a_time(sluice: Sluice, flights: int) -> None:
    """Departures at 2400 are published as flights that left."""
    assert sluice.query(
        "select count(*), count(*) filter (where not p.is_cancelled) "
        "from staging.flights__flights as s join analytics.fct_flights as p "
        "on p.flight_date = make_date(s.year::int, s.month::int, s.day::int) "
        "and p.carrier_code = s.carrier and p.flight_number = s.flight "
        "and p.origin_airport_code = s.origin where s.dep_time = 2400"
    ) == [(flights, flights)]


def test_the_dirt_of_december_and_of_the_hour_that_came_twice(sluice: Sluice) -> None:
    clocks = sluice.run("2013-11-03")
    assert clocks["outcome"] == "published"
    assert_the_hour_that_came_twice_is_there_twice(sluice)
    assert flights_to_places_unknown(sluice, clocks["run_id"]) == 18

    december = sluice.run("2013-12-29..2013-12-31")
    assert_only_the_weather_of_the_last_day_is_held_back(sluice, december)
    assert_midnight_is_a_time(sluice, 1)


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_the_whole_year_is_published_in_one_run_and_its_dirt_is_where_it_belongs(
    sluice: Sluice,
) -> None:
    ran = sluice.run("2013-01-01..2013-12-31")
    assert_only_the_weather_of_the_last_day_is_held_back(sluice, ran)
    assert_the_hour_that_came_twice_is_there_twice(sluice)
    assert flights_to_places_unknown(sluice, ran["run_id"]) == 7602
    assert_midnight_is_a_time(sluice, 29)

    [windy] = entries(sluice, "record")
    assert (windy["partition"], windy["rule"]) == (
        "flights.weather/2013-02-12@1",
        "wind_speed.less_than_equal",
    )
    assert sluice.query(
        "select count(*), count(*) filter (where is_cancelled), "
        "round(avg(departure_delay_minutes)::numeric, 4)::text, "
        "round(avg(arrival_delay_minutes)::numeric, 4)::text from analytics.fct_flights"
    ) == [(336776, 8255, "12.6391", "6.8954")]
    assert all(row["reconciles"] for row in sluice.json("quarantine", "list", "--summary"))

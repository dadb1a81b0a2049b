"""A schedule that is slower than a dataset's declared freshness is refused, with what to do."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from orchestration.checks.declared import DeclaredPipeline, read_pipelines
from orchestration.checks.finding import Finding, Severity
from orchestration.checks.freshness import check_model_freshness, check_resource_freshness
from orchestration.checks.sources import registered_resources
from orchestration.pipelines.acceptance import AcceptanceOverride, Freshness
from orchestration.pipelines.acceptance import Severity as Gravity
from orchestration.pipelines.spec import Schedule

PROJECT = Path(__file__).parents[3]
KNOWN, _ = registered_resources()


def flights(schedule: Schedule | None, hours: float = 168) -> list[DeclaredPipeline]:
    """The pipeline with this schedule; every resource's copy may be so many hours old."""
    [found], problems = read_pipelines(PROJECT / "orchestration" / "pipelines", PROJECT)
    assert problems == []
    freshness = Freshness(max_age_hours=hours, severity=Gravity.WARNING)
    resources = [
        item.model_copy(update={"acceptance": AcceptanceOverride(freshness=freshness)})
        for item in found.spec.resources
    ]
    spec = found.spec.model_copy(update={"schedule": schedule, "resources": tuple(resources)})
    return [replace(found, spec=spec)]


def new_york(cron: str) -> Schedule:
    return Schedule(cron=cron, time_zone="America/New_York")


@pytest.mark.parametrize(
    ("cron", "hours", "needed"),
    [
        ("0 6 * * *", 24, 25),
        ("0 6 * * 1", 168, 169),
        ("0 6 1 * *", 168, 745),
        ("0 6,18 * * *", 12, 13),
        ("*/10 8-17 * * *", 14, 15.1667),
        ("30 1 * * *", 24, 25),
    ],
)
def test_a_snapshot_that_grows_older_than_declared_until_the_next_run_is_refused(
    cron: str, hours: float, needed: float
) -> None:
    refused = check_resource_freshness(flights(new_york(cron), hours), KNOWN)
    assert [found.message.split()[0] for found in refused] == [
        "flights.planes",
        "flights.airlines",
        "flights.airports",
    ]
    assert {found.severity for found in refused} == {Severity.ERROR}
    assert f"lets it become {needed:g} hours" in refused[0].message
    assert refused[0].where.startswith("orchestration/pipelines/flights.yml:")
    assert refused[0].hint == (
        f"run it more often, or declare at least {needed:g} hours in max_age_hours"
    )
    assert check_resource_freshness(flights(new_york(cron), needed + 0.001), KNOWN) == []


def test_a_pipeline_that_runs_only_when_asked_promises_nothing() -> None:
    assert check_resource_freshness(flights(None, 1), KNOWN) == []
    assert check_model_freshness(flights(None), PROJECT / "expectations/suites", {}) == []


def test_a_schedule_that_never_fires_is_refused() -> None:
    [refused] = check_resource_freshness(flights(new_york("0 6 31 2 *")), KNOWN)
    assert "'0 6 31 2 *' does not fire" in refused.message


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    (tmp_path / "marts").mkdir()
    return tmp_path


def judge(
    suites: Path, minimum: str, cron: str, partitioned: Sequence[str] = ("fct_flights",)
) -> list[Finding]:
    (suites / "marts" / "fct_flights.yml").write_text(
        "name: fct_flights\nmeta: {owner: someone, runbook: docs/runbooks/failed-gate.md}\n"
        "expectations:\n  - type: expect_column_max_to_be_between\n"
        f"    kwargs: {{column: departed_at, min_value: {minimum}}}\n"
        "    severity: warning\n    meta: {reason: R.}\n"
    )
    return check_model_freshness(flights(new_york(cron)), suites, partitioned)


@pytest.mark.parametrize(
    ("age", "needed"), [("hours=30", 31), ("days=1, hours=6", 31), ("minutes=1859", 31)]
)
def test_a_model_whose_newest_day_is_older_than_its_suite_wants_is_refused(
    suites: Path, age: str, needed: int
) -> None:
    minimum = f"{{$PARAMETER: 'as_of - timedelta({age})'}}"
    [refused] = judge(suites, minimum, "0 6 * * *")
    assert refused.severity is Severity.ERROR
    assert refused.where.endswith("fct_flights.yml:4")
    assert f"lets it become {needed} hours, as from 2025-11-01 00:00" in refused.message
    assert refused.hint == f"run it more often, or declare at least {needed} hours in min_value"


def test_a_model_of_snapshots_is_as_new_as_the_last_run(suites: Path) -> None:
    minimum = "{$PARAMETER: 'as_of - timedelta(hours=25)'}"
    assert judge(suites, minimum, "0 6 * * *", partitioned=()) == []
    assert len(judge(suites, minimum, "0 6 * * *")) == 1


@pytest.mark.parametrize(
    "minimum",
    [
        "100",
        "{$PARAMETER: 'as_of + timedelta(hours=1)'}",
        "{$PARAMETER: 'as_of - 2 * timedelta(1)'}",
    ],
)
def test_a_bound_that_is_no_age_says_nothing_of_the_schedule(suites: Path, minimum: str) -> None:
    assert judge(suites, minimum, "0 6 1 1 *") == []


def test_the_project_as_shipped_keeps_what_it_declares() -> None:
    shipped, _ = read_pipelines(PROJECT / "orchestration" / "pipelines", PROJECT)
    assert check_resource_freshness(shipped, KNOWN) == []
    models = {"fct_flights", "fct_weather_hourly", "agg_carrier_daily"}
    assert check_model_freshness(shipped, PROJECT / "expectations/suites", models) == []
    weekly = replace(
        shipped[0], spec=shipped[0].spec.model_copy(update={"schedule": new_york("0 6 * * 1")})
    )
    assert len(check_model_freshness([weekly], PROJECT / "expectations/suites", models)) == 2

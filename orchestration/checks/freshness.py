"""Freshness that a schedule cannot keep: what is declared of a resource or a model, against the longest
time between two scheduled runs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from expectations.document import SuiteError
from expectations.parameters import age_allowed
from expectations.suite import load_suite
from ingestion.partitions import SNAPSHOT
from ingestion.resources import Resource
from orchestration.checks.declared import DeclaredPipeline
from orchestration.checks.finding import Finding, Severity, shown_path, split_hint
from orchestration.errors import ConfigurationError
from orchestration.pipelines.spec import Schedule
from orchestration.triggers.schedule import hours_between, longest_wait

SUBJECT = "schedule"
_NEWEST = "expect_column_max_to_be_between"


def check_resource_freshness(
    declared: Iterable[DeclaredPipeline], known: Mapping[str, Resource]
) -> list[Finding]:
    """The copy of a snapshot is replaced by each scheduled run; until the next one it grows old."""
    findings = []
    for pipeline, schedule in _scheduled(declared):
        try:
            since, until = longest_wait(schedule)
        except ConfigurationError as error:
            findings.append(
                pipeline.error(SUBJECT, ("schedule", "cron"), *split_hint(error.message))
            )
            continue
        for name in pipeline.spec.resource_names:
            freshness = pipeline.spec.acceptance_of(name).freshness
            if freshness is None or name not in known:
                continue
            allowed = timedelta(hours=freshness.max_age_hours)
            if known[name].contract.window_kind == SNAPSHOT and _is_longer(since, until, allowed):
                message, hint = _words(
                    f"{name} may be {_hours(allowed)} old", schedule, since, until, "max_age_hours"
                )
                findings.append(pipeline.error(SUBJECT, ("schedule", "cron"), message, hint))
    return findings


def check_model_freshness(
    declared: Iterable[DeclaredPipeline], suites_dir: Path, partitioned: Collection[str]
) -> list[Finding]:
    """The newest row of a model that is kept by day is at best of the end of the last day asked for."""
    findings = []
    for pipeline, schedule in _scheduled(declared):
        for name in pipeline.spec.suites:
            for model, allowed, where in _declared_ages(pipeline, suites_dir, name):
                try:
                    since, until = longest_wait(schedule, since_midnight=model in partitioned)
                except ConfigurationError:
                    break
                if _is_longer(since, until, allowed):
                    message, hint = _words(
                        f"the newest row of {model} may be {_hours(allowed)} old",
                        schedule,
                        since,
                        until,
                        "min_value",
                    )
                    findings.append(Finding(Severity.ERROR, SUBJECT, where, message, hint))
    return findings


def _scheduled(
    declared: Iterable[DeclaredPipeline],
) -> Iterator[tuple[DeclaredPipeline, Schedule]]:
    for pipeline in declared:
        if pipeline.spec.schedule is not None:
            yield pipeline, pipeline.spec.schedule


def _declared_ages(
    pipeline: DeclaredPipeline, suites_dir: Path, name: str
) -> Iterator[tuple[str, timedelta, str]]:
    """(model, age, place) of each expectation about the newest row."""
    try:
        suite = load_suite(suites_dir / f"{name}.yml")
    except (OSError, SuiteError):
        return
    for item in suite.expectations:
        allowed = age_allowed(item.kwargs.get("min_value")) if item.type == _NEWEST else None
        if allowed is not None:
            yield suite.name, allowed, shown_path(suite.path, pipeline.project_dir, item.line)


def _is_longer(since: datetime, until: datetime, allowed: timedelta) -> bool:
    return hours_between(since, until) > allowed.total_seconds() / 3600


def _words(
    what: str, schedule: Schedule, since: datetime, until: datetime, declared: str
) -> tuple[str, str]:
    needed = timedelta(hours=hours_between(since, until))
    example = f"from {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} ({schedule.time_zone})"
    return (
        f"{what}, and the schedule {schedule.cron!r} lets it become {_hours(needed)}, as {example}",
        f"run it more often, or declare at least {_hours(needed)} in {declared}",
    )


def _hours(age: timedelta) -> str:
    return f"{age.total_seconds() / 3600:g} hours"

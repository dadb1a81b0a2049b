"""Alerts: everybody who is to be told can be reached, at addresses that can be used."""

from collections.abc import Iterable, Iterator

from orchestration.checks.declared import DeclaredPipeline
from orchestration.checks.finding import Finding, Severity, split_hint
from orchestration.errors import ConfigurationError
from orchestration.model import StageName
from orchestration.notifications.delivery import is_address
from orchestration.notifications.routes import filled_in, read_alerts
from orchestration.settings import Settings

SUBJECT = "alerts"
_VARIABLE = "SLUICE_ALERT_ROUTES"


def check_alerts(declared: Iterable[DeclaredPipeline], settings: Settings) -> list[Finding]:
    """Nothing while messages only go to the log; else every owner that has no usable route."""
    try:
        alerts = read_alerts(settings)
    except ConfigurationError as error:
        return [_finding(*split_hint(error.message))]
    if alerts.only_log:
        return []
    findings = [
        _finding(f"a route of {owner} is not an address that apprise knows", "correct the address")
        for owner, routes in sorted(alerts.routes.items())
        if not all(map(is_address, (filled_in(route, "a@b.example") for route in routes)))
    ]
    for pipeline in declared:
        for place, email in _people(pipeline):
            if not alerts.routes_of(email):
                findings.append(
                    pipeline.error(
                        SUBJECT,
                        place,
                        f"nobody is told what {email} should know: {_VARIABLE} has no route for them",
                        f'add one to {_VARIABLE}, or one for everybody: "*"',
                    )
                )
    return findings


def _people(pipeline: DeclaredPipeline) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """(place in the file, address) of everybody who may be told something."""
    spec = pipeline.spec
    yield ("owner",), spec.owner.email
    yield ("reviewer",), spec.reviewer.email
    for stage in StageName:
        if (owner := spec.stages.policy(stage).owner) is not None:
            yield ("stages", stage.value, "owner"), owner.email
    for index, resource in enumerate(spec.resources):
        if resource.owner is not None:
            yield ("resources", index, "owner"), resource.owner.email


def _finding(message: str, hint: str) -> Finding:
    return Finding(Severity.ERROR, SUBJECT, _VARIABLE, message, hint)

"""An alert that would reach nobody is found before it is written."""

import json
from pathlib import Path

import pytest
from pydantic import SecretStr

from orchestration.checks.alerts import check_alerts
from orchestration.checks.declared import read_pipelines
from orchestration.settings import Settings

PROJECT = Path(__file__).parents[3]
PEOPLE = ("flight-data@example.com", "flight-data-review@example.com", "weather-data@example.com")


def found(routes: object) -> list[tuple[str, str]]:
    settings = Settings(
        alert_routes=SecretStr(routes if isinstance(routes, str) else json.dumps(routes))
    )
    declared, _ = read_pipelines(settings.pipelines_dir, PROJECT)
    return [(item.where, item.message) for item in check_alerts(declared, settings)]


def test_without_routes_messages_go_to_the_log_and_nothing_is_wrong() -> None:
    declared, _ = read_pipelines(Settings().pipelines_dir, PROJECT)
    assert check_alerts(declared, Settings(alert_routes=None)) == []


def test_every_owner_without_a_route_is_an_error_at_its_line() -> None:
    findings = found({PEOPLE[0]: "json://127.0.0.1/a"})
    assert len(findings) == 2
    for (where, message), person in zip(findings, PEOPLE[1:], strict=True):
        assert where.startswith("orchestration/pipelines/flights.yml:")
        assert person in message


def test_a_route_for_everybody_serves_all() -> None:
    assert found({"*": "mailtos://user:pw@mail.example.com?to={email}"}) == []


@pytest.mark.parametrize("routes", ["{", "[]", '{"*": []}', '{"*": 5}', '{"*": "no address"}'])
def test_routes_that_cannot_be_read_are_an_error(routes: str) -> None:
    [(where, message)] = found(routes)
    assert (where, "is not like" in message) == ("SLUICE_ALERT_ROUTES", True)


def test_an_address_that_apprise_does_not_know_is_an_error_and_is_not_shown() -> None:
    [(_, message)] = found({"*": "unheardof://secret-token@host"})
    assert "secret-token" not in message

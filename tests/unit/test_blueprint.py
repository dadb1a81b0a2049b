"""render.yaml has what the platform knows, reaches only what it declares, and keeps secrets out."""

import re
from datetime import datetime

import pytest
from blueprint import BLUEPRINT, PROJECT, SERVICES, variables
from cronsim import CronSim

from orchestration.cli.app import app
from orchestration.settings import Settings

SHARED = {"type", "name", "runtime", "region", "buildCommand", "startCommand", "envVars"}
FIELDS = {
    "workflow": SHARED | {"repo", "branch", "rootDir", "buildFilter", "autoDeployTrigger"},
    "web": SHARED | {"plan", "preDeployCommand", "healthCheckPath"},
    "cron": SHARED | {"plan", "schedule"},
}
SECRET = re.compile(r"SECRET|TOKEN|PASSWORD|KEY|ROUTES")


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_has_only_fields_that_the_platform_knows(name: str) -> None:
    service = SERVICES[name]
    assert set(service) <= FIELDS[service["type"]]
    assert set(service) >= SHARED
    assert service["type"] != "workflow" or "repo" in service
    assert service["region"] == BLUEPRINT["databases"][0]["region"]


def test_the_database_is_reached_from_inside_alone() -> None:
    [database] = BLUEPRINT["databases"]
    assert database["ipAllowList"] == []
    assert database["postgresMajorVersion"] == "18"


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_is_wired_to_is_declared(name: str) -> None:
    for entry in variables(SERVICES[name]).values():
        [(kind, value)] = [(key, item) for key, item in entry.items() if key != "key"]
        match kind:
            case "fromDatabase":
                assert value == {"name": "sluice-warehouse", "property": "connectionString"}
            case "fromService":
                assert SERVICES[value["name"]]["type"] == value["type"] == "workflow"
                assert value["property"] == "slug"
            case "sync":
                assert value is False
            case "generateValue":
                assert value is True
            case _:
                assert kind == "value"
                assert not SECRET.search(entry["key"])


@pytest.mark.parametrize("name", SERVICES)
def test_every_variable_is_one_that_something_reads(name: str) -> None:
    known = {f"SLUICE_{field.upper()}" for field in Settings.model_fields}
    known |= {
        "SLUICE_WEBHOOK_SECRETS_FLIGHTS",
        "RENDER_API_KEY",
        "FORWARDED_ALLOW_IPS",
        "PYTHON_VERSION",
    }
    assert set(variables(SERVICES[name])) <= known


def test_groups_hold_what_groups_may_hold() -> None:
    for group in BLUEPRINT["envVarGroups"]:
        for entry in group["envVars"]:
            assert set(entry) - {"key"} <= {"value", "generateValue"}


def test_migrations_run_before_the_web_service_is_deployed_and_secrets_stay_with_it() -> None:
    web = SERVICES["sluice-web"]
    assert web["preDeployCommand"] == "sluice init && sluice roles sync"
    assert web["healthCheckPath"] == "/healthz"
    for name, service in SERVICES.items():
        own = {"SLUICE_CONSOLE_PASSWORD", "SLUICE_WEBHOOK_SECRETS_FLIGHTS"}
        assert (own <= set(variables(service))) == (name == "sluice-web")


@pytest.mark.parametrize("name", SERVICES)
def test_every_command_is_one_that_exists(name: str) -> None:
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    commands |= {group.name for group in app.registered_groups}
    service = SERVICES[name]
    for line in (service["startCommand"], service.get("preDeployCommand", "")):
        for part in filter(None, line.split(" && ")):
            program, first, *_ = part.split()
            if program == "sluice":
                assert first in commands
            else:
                assert part == "render-workflows orchestration.workflow:app"


def test_the_schedules_have_five_fields() -> None:

    for service in SERVICES.values():
        if service["type"] == "cron":
            assert len(service["schedule"].split()) == 5
            CronSim(service["schedule"], datetime(2026, 1, 1))


def test_the_guide_names_every_service_and_command() -> None:
    guide = (PROJECT / "docs" / "deploying-on-render.md").read_text()
    for name, service in SERVICES.items():
        assert f"`{name}`" in guide
        assert f"`{service['startCommand']}`" in guide

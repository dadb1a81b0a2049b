"""Each command in render.yaml, as it stands there, in the environment that render.yaml describes."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from blueprint import SERVICES, Environments
from harness import Sluice
from platform_api import PlatformApi
from psycopg import sql
from web_service import message, signed
from workflow_platform import Platform

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

SNAPSHOTS = {"flights.planes", "flights.airlines", "flights.airports"}
MODELS = ["dim_carrier", "dim_airport", "dim_plane"]


@pytest.fixture
def empty(server: EmbeddedServer) -> Iterator[Warehouse]:
    """A database as the platform hands it over: nothing is in it."""
    name = sql.Identifier(f"test_{secrets.token_hex(6)}")
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("create database {} owner sluice_owner").format(name))
        yield Warehouse(server.url(database=name.as_string().strip('"')))
        connection.execute(sql.SQL("drop database {} with (force)").format(name))


def only_snapshots(project: Path) -> None:
    """The demo service knows days of 2013 alone; what is due today are its small whole tables."""
    path = project / "orchestration" / "pipelines" / "flights.yml"
    spec = yaml.safe_load(path.read_text())
    spec["resources"] = [item for item in spec["resources"] if item["name"] in SNAPSHOTS]
    spec["dbt"]["select"] = [f"+{model}" for model in MODELS]
    spec["publishes"] = MODELS
    spec["suites"] = [f"marts/{model}" for model in MODELS]
    del spec["stages"]["transform"]["acceptance"]["required_fields"]
    path.write_text(yaml.safe_dump(spec))


class Deployment:
    """One checkout, one database, and every service of the Blueprint as processes of this machine."""

    def __init__(self, sluice: Sluice, api: PlatformApi) -> None:
        self.sluice, self.api = sluice, api
        self.environments = Environments(
            sluice.warehouse.owner_url,
            {
                "SLUICE_FLIGHTS_API_URL": sluice.demo.url,
                "SLUICE_FLIGHTS_API_TOKEN": sluice.demo.token,
                "SLUICE_CONSOLE_URL": "https://sluice.example.com",
                "SLUICE_ALERT_ROUTES": "",
                "RENDER_API_KEY": api.environment["RENDER_API_KEY"],
            },
        )

    def environment(self, service: dict[str, Any]) -> dict[str, str]:
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.sluice.project),
            **self.environments.of(service),
            # Instead of one place for all tests, and of the platform's own address.
            "SLUICE_HOME": str(self.sluice.home),
            "RENDER_LOCAL_DEV_URL": self.api.url,
        }

    def run(self, service: dict[str, Any], command: str) -> str:
        """What the command says; fails the test unless it ends well."""
        done = subprocess.run(
            ["bash", "-c", command],
            env=self.environment(service),
            cwd=self.sluice.project,
            text=True,
            capture_output=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-3000:]}"
        return done.stdout

    def crons(self) -> dict[str, Any]:
        """What each cron job answers, as JSON."""
        return {
            name: json.loads(self.run(service, service["startCommand"]))
            for name, service in SERVICES.items()
            if service["type"] == "cron"
        }

    @contextmanager
    def web(self) -> Iterator[httpx.Client]:
        """A client of the web service, which is ended as the platform ends one."""
        service = SERVICES["sluice-web"]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        with (self.sluice.home / "web.log").open("w") as log:
            process = subprocess.Popen(
                ["bash", "-c", service["startCommand"]],
                env={**self.environment(service), "PORT": port},
                cwd=self.sluice.project,
                stdout=log,
                stderr=log,
            )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
                self._await(client, service["healthCheckPath"], process)
                yield client
            process.send_signal(signal.SIGTERM)
            # By the signal itself, once everybody has been answered.
            assert process.wait(60) in {0, -signal.SIGTERM}
        finally:
            process.kill()
            process.wait()

    def _await(self, client: httpx.Client, path: str, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert process.poll() is None, (self.sluice.home / "web.log").read_text()
            with suppress(httpx.TransportError):
                assert client.get(path).status_code == 200
                return
            time.sleep(0.1)
        raise AssertionError(f"{path} did not answer")

    def workflow(self) -> Platform:
        service = SERVICES["sluice-runs"]
        return Platform(
            self.sluice, command=service["startCommand"], environment=self.environment(service)
        )


def test_every_command_of_the_blueprint_does_its_work_on_an_empty_database(
    empty: Warehouse, tmp_path: Path, demo_server: DemoServer
) -> None:
    demo_server.clear()
    home = tmp_path / "home"
    home.mkdir()
    sluice = Sluice(empty, home, demo_server).copy_project(tmp_path / "project")
    only_snapshots(sluice.project)
    with PlatformApi() as api:
        deployment = Deployment(sluice, api)
        web = SERVICES["sluice-web"]
        deployment.run(web, web["preDeployCommand"])
        with deployment.web() as client:
            assert client.get("/readyz").json() == {"status": "ready"}
            event = json.dumps(message("flights.airlines")).encode()
            key = deployment.environments.generated["SLUICE_WEBHOOK_SECRETS_FLIGHTS"]
            headers = signed(event, "msg_1", key=key)
            assert client.post("/webhooks/flights", content=event, headers=headers).is_success
        answers = deployment.crons()
        platform = deployment.workflow()
        tasks = platform.register().keys()
        dispatched = platform.run("dispatch")

    assert answers["sluice-nightly-flights"]["outcome"] == "published"
    assert sluice.query("select count(*) > 0 from analytics.dim_plane", Role.ANALYST) == [(True,)]
    assert [run["messages"] for run in answers["sluice-dispatch"]["accepted"]] == [1]
    assert api.inputs("execute") == [[answers["sluice-dispatch"]["started"][0]["run_id"]]]
    assert tasks >= {"execute", "dispatch", "run_pipeline"}
    assert dispatched["accepted"] == []
    assert answers.keys() >= {"sluice-recover", "sluice-prune"}

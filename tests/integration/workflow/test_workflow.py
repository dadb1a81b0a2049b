"""The Render adapter run for real by the platform's own worker, against a stand-in platform."""

import subprocess
import sys
from pathlib import Path

import pytest
from harness import CHECKOUT, Sluice
from workflow_platform import Platform, output_of

from ingestion.demo_api.server import DemoServer
from orchestration.warehouse.connections import Warehouse

HEAVY = ("dbt", "dlt", "great_expectations", "psycopg", "sqlalchemy", "pyarrow", "pandas")


@pytest.fixture
def sluice(warehouse: Warehouse, tmp_path: Path) -> Sluice:
    with DemoServer() as demo:
        yield Sluice(warehouse, tmp_path, demo)


def test_registration_names_the_tasks_with_their_options_and_reaches_nothing(
    tmp_path: Path,
) -> None:
    unreachable = {"SLUICE_WAREHOUSE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    tasks = {task["name"]: task["options"] for task in Platform(tmp_path, unreachable).register()}
    assert tasks.keys() == {"run_pipeline", "execute", "dispatch"}
    for options in tasks.values():
        assert options["retry"]["max_retries"] == 3
        assert 30 <= options["timeout_seconds"] <= 86_400


def test_registration_imports_nothing_heavy() -> None:
    program = f"import sys, orchestration.workflow; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_task_publishes_and_its_repetition_changes_nothing(sluice: Sluice) -> None:
    platform = Platform(sluice.home, sluice.environment)
    first = output_of(platform.run("run_pipeline", "flights", "2013-01-01"))
    assert first["outcome"] == "published"
    again = output_of(platform.run("run_pipeline", "flights", "2013-01-01"))
    assert (again["run_id"], again["outcome"]) == (first["run_id"], "unchanged")


def test_a_permanent_failure_is_returned_and_a_transient_one_is_raised(sluice: Sluice) -> None:
    sluice.extra = {"SLUICE_FETCH_ATTEMPTS": "1"}
    platform = Platform(sluice.home, sluice.environment)
    sluice.demo.set_fault("expired_token")
    returned = output_of(platform.run("run_pipeline", "flights", "2013-01-01"))
    assert (returned["outcome"], returned["failure"]["kind"]) == ("failed", "source")
    sluice.demo.clear()
    sluice.demo.set_fault("server_error")
    raised = platform.run("run_pipeline", "flights", "2013-01-01")
    assert raised["error"]["details"]

"""The Render adapter run for real by the platform's own worker, against a stand-in platform."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from harness import CHECKOUT, Sluice
from warm import WarmSluice
from workflow_platform import Platform, with_tasks

from orchestration.model import StageName
from orchestration.pipelines.files import load_pipelines
from orchestration.pipelines.tasks import BESIDE_BUDGET_S
from orchestration.runs.drive import BUILD_LEASE_WAIT_S
from orchestration.runs.runner import RUN_LEASE_WAIT_S

HEAVY = ("dbt", "dlt", "great_expectations", "psycopg", "sqlalchemy", "pyarrow", "pandas")
PIPELINES = CHECKOUT / "orchestration" / "pipelines"
WHOLE = {"run_pipeline", "execute", "dispatch"}


@pytest.fixture
def nowhere(tmp_path: Path) -> Sluice:
    """Neither a warehouse nor a source can be reached."""
    warehouse = SimpleNamespace(owner_url="postgresql://nobody@127.0.0.1:1/none")
    demo = SimpleNamespace(url="http://127.0.0.1:1", token="none")
    return Sluice(warehouse, tmp_path, demo)


def test_registration_names_the_tasks_with_their_options_and_reaches_nothing(
    nowhere: Sluice,
) -> None:
    tasks = Platform(nowhere).register()
    specs = load_pipelines(PIPELINES).values()
    of_stages = {f"{spec.name}_{stage}" for spec in specs for stage in StageName}
    assert tasks.keys() == WHOLE | of_stages | {f"{spec.name}_extract_chunk" for spec in specs}
    for options in tasks.values():
        assert 30 <= options["timeout_seconds"] <= 86_400
        assert options["plan"] in {"starter", "standard", "pro"}
    assert all(tasks[name]["retry"]["max_retries"] == 3 for name in WHOLE)
    for spec in specs:
        for stage in StageName:
            policy, options = spec.stages.policy(stage), tasks[f"{spec.name}_{stage}"]
            assert options["retry"]["max_retries"] == policy.max_attempts - 1
            assert options["plan"] == policy.plan
            # A stage stops by itself, and tells of it, before the platform ends its task.
            besides = spec.stages.notify.budget_seconds + RUN_LEASE_WAIT_S + BUILD_LEASE_WAIT_S
            assert options["timeout_seconds"] > policy.budget_seconds + besides
        budgets = sum(spec.stages.policy(stage).budget_seconds for stage in StageName)
        assert tasks["execute"]["timeout_seconds"] > budgets + BESIDE_BUDGET_S


def test_the_options_follow_the_pipeline_file(nowhere: Sluice, tmp_path: Path) -> None:
    here = with_tasks(nowhere, tmp_path / "project", "{extract_tasks: 2}")
    file = tmp_path / "project" / "orchestration" / "pipelines" / "flights.yml"
    declared = file.read_text("utf-8")
    file.write_text(
        declared.replace(
            "budget_seconds: 1500\n    max_attempts: 2",
            "budget_seconds: 5000\n    max_attempts: 1\n    plan: pro",
        ),
        "utf-8",
    )
    before, after = Platform(nowhere).register(), Platform(here).register()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == WHOLE - {"dispatch"} | {"flights_transform"}
    assert after["flights_transform"]["retry"]["max_retries"] == 0
    assert after["flights_transform"]["plan"] == after["execute"]["plan"] == "pro"
    longer = after["flights_transform"]["timeout_seconds"]
    assert longer == before["flights_transform"]["timeout_seconds"] + 3500


def test_registration_imports_nothing_heavy() -> None:
    program = f"import sys, orchestration.workflow; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_small_run_is_one_task_and_its_repetition_changes_nothing(sluice: WarmSluice) -> None:
    platform = Platform(sluice)
    first = platform.run("run_pipeline", "flights", "2013-01-01")
    assert first["outcome"] == "published"
    again = platform.run("run_pipeline", "flights", "2013-01-01")
    assert (again["run_id"], again["outcome"]) == (first["run_id"], "unchanged")
    assert [attempt.task for attempt in platform.attempts] == ["run_pipeline", "run_pipeline"]


def test_a_permanent_failure_is_returned_and_a_transient_one_is_raised(sluice: WarmSluice) -> None:
    sluice.extra = {"SLUICE_FETCH_ATTEMPTS": "1"}
    platform = Platform(replace(sluice))
    sluice.demo.set_fault("expired_token")
    returned = platform.run("run_pipeline", "flights", "2013-01-01")
    assert (returned["outcome"], returned["failure"]["kind"]) == ("failed", "source")
    sluice.demo.clear()
    sluice.demo.set_fault("server_error")
    with pytest.raises(AssertionError, match="error"):
        platform.run("run_pipeline", "flights", "2013-01-01")
    assert [attempt.number for attempt in platform.attempts] == [1, 1, 2, 3, 4]

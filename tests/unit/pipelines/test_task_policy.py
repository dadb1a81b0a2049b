"""How long, how large and how many the tasks of a run are."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestration.model import StageName
from orchestration.pipelines.files import PipelineFileError, get_pipeline, load_pipeline
from orchestration.pipelines.spec import PipelineSpec
from orchestration.pipelines.stages import Plan
from orchestration.pipelines.tasks import (
    LONGEST_TASK_S,
    largest_plan,
    run_timeout_s,
    task_timeout_s,
)
from orchestration.runs.chunks import in_chunks

PIPELINES = Path(__file__).parents[3] / "orchestration" / "pipelines"


def edited(folder: Path, old: str, new: str) -> PipelineSpec:
    text = (PIPELINES / "flights.yml").read_text("utf-8")
    assert old in text
    path = folder / "flights.yml"
    path.write_text(text.replace(old, new, 1), "utf-8")
    return load_pipeline(path)


def test_every_budget_is_below_the_time_of_its_task_and_all_below_that_of_a_run() -> None:
    stages = get_pipeline(PIPELINES, "flights").stages
    for stage in StageName:
        assert stages.policy(stage).budget_seconds < task_timeout_s(stages, stage) < LONGEST_TASK_S
    whole = run_timeout_s(stages)
    assert sum(stages.policy(stage).budget_seconds for stage in StageName) < whole < LONGEST_TASK_S


def test_budgets_that_a_task_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="take 21780 seconds from budget_seconds"):
        edited(tmp_path, "budget_seconds: 1500", "budget_seconds: 86400")


def test_a_task_that_may_do_any_stage_has_the_largest_plan(tmp_path: Path) -> None:
    flights = get_pipeline(PIPELINES, "flights")
    larger = edited(tmp_path, "threads: 4", "threads: 4\n    plan: pro")
    assert largest_plan([flights.stages]) is Plan.STANDARD
    assert largest_plan([larger.stages, flights.stages]) is Plan.PRO
    assert largest_plan([]) is None


@given(st.lists(st.text(max_size=3), unique=True, max_size=60), st.integers(1, 20))
def test_chunks_hold_everything_once_and_are_about_equal(names: list[str], size: int) -> None:
    chunks = in_chunks(names, size)
    assert sorted(name for chunk in chunks for name in chunk) == sorted(names)
    sizes = [len(chunk) for chunk in chunks]
    assert max(sizes, default=0) <= size
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(chunks) == -(-len(names) // size)

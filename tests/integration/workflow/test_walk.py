"""Large runs, a task for each stage and each chunk: whatever dies, the same is published."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sabotage import Kind, Sabotage
from warm import WarmSluice
from workflow_platform import Attempt, Platform, with_tasks

from orchestration.faultpoints import FaultPoint
from orchestration.model import StageName

DAYS = "2013-01-01..2013-01-02"
# Seven partitions: three chunks.
POLICY = "{one_task_partitions: 4, partitions_per_task: 3, extract_tasks: 2}"
CHUNK = "flights_extract_chunk"
STAGES = [f"flights_{stage}" for stage in StageName]

Published = dict[str, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def calm(shared_sluice: WarmSluice) -> Published:
    """What one undisturbed process publishes."""
    assert shared_sluice.run(DAYS)["outcome"] == "published"
    return shared_sluice.everything_published()


@pytest.fixture
def walking(sluice: WarmSluice, tmp_path: Path) -> WarmSluice:
    return with_tasks(sluice, tmp_path / "project", POLICY)


def killed_at(point: FaultPoint, task: str, stage: str = "") -> Callable[..., Any]:
    """SIGKILL at that point (of a stage, if all stages pass it) in first attempts at the task."""
    sabotage = Sabotage(point, stage, Kind.SIGKILL, "", "", "")

    def strike(attempt: Attempt) -> tuple[Sabotage, ...]:
        return (sabotage,) if attempt.task == task and attempt.number == 1 else ()

    return strike


def parent_killed_with(task: str) -> Callable[[Attempt, str], None]:
    """SIGKILL for whoever has the run, once, as soon as it has started that task."""

    def kill(parent: Attempt, started: str) -> None:
        if started == task and parent.number == 1:
            parent.kill()

    return kill


def deaf_to(task: str) -> Callable[[Attempt], bool]:
    """The first attempt at the task does its work and ends, and nobody hears of it."""
    return lambda attempt: attempt.task != task or attempt.number > 1


def test_killed_parents_and_children_publish_the_same(walking: WarmSluice, calm: Published) -> None:
    loads = killed_at(FaultPoint.EXTRACT_AFTER_LOAD, CHUNK)
    builds = killed_at(FaultPoint.TRANSFORM_AFTER_BUILD, "flights_transform")
    platform = Platform(
        walking,
        strike=lambda attempt: loads(attempt) + builds(attempt),
        hears=deaf_to("flights_gate"),
        on_subtask=parent_killed_with("flights_publish"),
    )
    result = platform.run("run_pipeline", "flights", DAYS)
    assert result["outcome"] == "published"
    assert walking.everything_published() == calm
    assert walking.query("select count(*) from ops.publications") == [(1,)]
    unheard = {attempt.task for attempt in platform.attempts if attempt.callback is None}
    assert unheard == {CHUNK, "flights_transform", "flights_gate", "run_pipeline"}
    chunks = [len(attempt.inputs[1]) for attempt in platform.attempts if attempt.task == CHUNK]
    assert sorted(chunks) == [2, 2, 2, 2, 3, 3]
    told = {(line["stage"], line["status"]) for line in result["stages"]}
    assert told == {(stage.value, "succeeded") for stage in StageName}
    assert walking.query("select distinct status from ops.runs") == [("finished",)]
    # Nobody has the run any more.
    assert walking.query("select from ops.leases where expires_at > clock_timestamp()") == []


def test_what_may_pass_is_raised_and_repeated_and_what_may_not_ends_the_run(
    walking: WarmSluice,
) -> None:
    walking.extra["SLUICE_FETCH_ATTEMPTS"] = "1"
    platform = Platform(walking)
    walking.demo.set_fault("expired_token")
    refused = platform.run("run_pipeline", "flights", "2013-01-01")
    assert (refused["outcome"], refused["failure"]["kind"]) == ("failed", "source")
    assert {attempt.number for attempt in platform.attempts} == {1}
    platform.attempts.clear()
    walking.demo.clear()
    walking.demo.set_fault("server_error")
    away = platform.run("run_pipeline", "flights", "2013-01-01")
    assert (away["failure"]["transient"], away["failure"]["stage"]) == (True, "extract")
    raised = [attempt.task for attempt in platform.attempts if attempt.number == 3]
    # What chunks failed to fetch is tried by the task of the stage, which ends the run for it.
    assert sorted(raised) == ["flights_extract", CHUNK, CHUNK]
    assert {attempt.number for attempt in platform.attempts if "extract" not in attempt.task} == {1}
    assert walking.query("select status, failure ->> 'stage' from ops.runs") == [
        ("failed", "extract")
    ]


@pytest.mark.campaign
@pytest.mark.parametrize("task", [*STAGES, CHUNK])
@pytest.mark.parametrize("how", ["killed before", "killed after", "unheard", "parent killed"])
def test_each_task_may_die(walking: WarmSluice, calm: Published, task: str, how: str) -> None:
    platform = Platform(walking)
    stage = StageName.EXTRACT if task == CHUNK else StageName(task.removeprefix("flights_"))
    match how:
        case "killed before":
            platform.strike = killed_at(FaultPoint.STAGE_BEFORE_SUCCESS, task, stage)
        case "killed after":
            platform.strike = killed_at(FaultPoint.STAGE_AFTER_SUCCESS, task, stage)
        case "unheard":
            platform.hears = deaf_to(task)
        case _:
            platform.on_subtask = parent_killed_with(task)
    # Whose end was not heard of is asked for again, which changes nothing.
    assert platform.run("run_pipeline", "flights", DAYS)["outcome"] in {"published", "unchanged"}
    assert walking.query("select outcome from ops.runs") == [("published",)]
    assert walking.everything_published() == calm
    assert walking.query("select count(*) from ops.publications") == [(1,)]


@pytest.mark.campaign
def test_a_run_that_is_cancelled_between_two_tasks_stays_cancelled(walking: WarmSluice) -> None:
    def cancel(_parent: Attempt, task: str) -> None:
        if task == "flights_validate":
            run = walking.query("select run_id from ops.runs")[0][0]
            walking.call("cancel", str(run), "--reason", "test")

    platform = Platform(walking, on_subtask=cancel)
    result = platform.run("run_pipeline", "flights", DAYS)
    assert result["failure"]["error_code"] == "cancelled"
    assert walking.query("select status from ops.runs") == [("cancelled",)]
    assert not [item for item in platform.attempts if item.task == "flights_transform"]

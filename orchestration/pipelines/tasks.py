"""How a run becomes tasks of the workflow platform: how many, how large, and how long each may take.

A stage's task may take longer than the stage's budget allows, so that the stage stops by itself and
saves what it has before the platform would end it.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from orchestration.model import StageName
from orchestration.pipelines.acceptance import Declared
from orchestration.pipelines.stages import Plan, Stages

# The platform ends every task after a day.
LONGEST_TASK_S = 86_400
# Beside its budget a stage's task may wait for the run's lease and the build lease, a quarter of an
# hour each, starts up, and looks at what the stages before have finished.
BESIDE_BUDGET_S = 2400


class TaskPolicy(Declared):
    one_task_partitions: Annotated[int, Field(ge=0, le=100_000)] = 100
    """A run of at most so many partitions does all stages in one task, which saves starting others."""
    partitions_per_task: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Larger runs extract in chunks of at most so many partitions, each a task."""
    extract_tasks: Annotated[int, Field(ge=1, le=32)] = 4
    """Chunks extracted at the same time; each fetches stages.extract.concurrency partitions at once."""


def task_timeout_s(stages: Stages, stage: StageName) -> int:
    """Seconds for the task of one stage; a failure is also told in it."""
    telling = stages.notify.budget_seconds
    return stages.policy(stage).budget_seconds + telling + BESIDE_BUDGET_S


def run_timeout_s(stages: Stages) -> int:
    """Seconds for the task of a whole run, which does all stages or waits for those who do."""
    return sum(task_timeout_s(stages, stage) for stage in StageName)


def largest_plan(pipelines: Iterable[Stages]) -> Plan | None:
    """What a task needs that may do any stage of any of the pipelines; None when there are none."""
    plans = {stages.policy(stage).plan for stages in pipelines for stage in StageName}
    return max(plans, key=list(Plan).index, default=None)


def check_timeouts(stages: Stages) -> Stages:
    """Raises `ValueError` for budgets that a task cannot hold."""
    over = run_timeout_s(stages) - LONGEST_TASK_S
    if over > 0:
        raise ValueError(
            f"the budgets are too long for a task, which may take a day; take {over} seconds from "
            "budget_seconds (that of notify counts for every stage)"
        )
    return stages

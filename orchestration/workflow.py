"""The Render adapter: runs, their stages and their extraction as tasks. The only user of the platform.

A task raises only what the platform may retry; every other failure is returned, because a repeat
would not help. Durability is the checkpoints': a retried task finds what its predecessor finished.
Registration imports this module, so nothing here connects to anything or imports anything heavy.
"""

import functools
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from render.workflows import Retry, TaskContext, Workflows

from orchestration.model import Run, StageName
from orchestration.pipelines.files import load_pipelines
from orchestration.pipelines.spec import PipelineSpec
from orchestration.pipelines.tasks import largest_plan, run_timeout_s, task_timeout_s
from orchestration.settings import load_settings

Answer = dict[str, Any]

# The platform's waits are the same for all; ours, as after so many attempts, spreads what failed together.
_SPREAD_AS_ATTEMPT = 5
_RETRY = functools.partial(Retry, wait_duration_ms=20_000, backoff_scaling=2.0)
# For the platform to answer that it has started a task.
_ANSWER_S = 10.0

_SPECS = load_pipelines(load_settings().pipelines_dir)
_STAGES = [spec.stages for spec in _SPECS.values()]
app = Workflows(
    default_retry=_RETRY(3),
    default_timeout=max(map(run_timeout_s, _STAGES), default=None),
    default_plan=largest_plan(_STAGES),
)


class RetryableFailure(Exception):
    """A transient failure; the platform starts the task again, and the run resumes."""


def _settled(body: Callable[..., Awaitable[Answer]]) -> Callable[..., Awaitable[Answer]]:
    """A task whose permanent failure is its answer. Raises `RetryableFailure` for others."""

    @functools.wraps(body)
    async def task(*arguments: Any, **named: Any) -> Answer:
        try:
            return await body(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - the platform would repeat it, whatever it is
            from orchestration.errors import SluiceError
            from orchestration.failures.backoff import backoff_s
            from orchestration.triggers.tasks import settle

            about = inspect.signature(body).bind(*arguments, **named).arguments
            try:
                return settle(error, about.get("run_id"), about.get("pipeline"))
            except SluiceError as failure:
                time.sleep(backoff_s(_SPREAD_AS_ATTEMPT))
                raise RetryableFailure(failure.message) from None

    return task


@app.task(name="run_pipeline")
@_settled
async def run_pipeline(ctx: TaskContext, pipeline: str, partitions: str = "") -> Answer:
    """Brings partitions (`2013-01-01..2013-01-31`) of a pipeline to publication.

    Without partitions it does what the pipeline's schedule says is due. Returns the object that
    `sluice run --json` prints. Raises `RetryableFailure`.
    """
    from orchestration.triggers.walk import bring_to_end

    services = _services()
    run = services.request(pipeline, partitions)
    return await bring_to_end(services, run, _Tasks(ctx))


@app.task(name="execute")
@_settled
async def execute(ctx: TaskContext, run_id: str) -> Answer:
    """Brings a run that was accepted to its outcome. Returns and raises like `run_pipeline`."""
    from orchestration.triggers.walk import bring_to_end

    services = _services()
    return await bring_to_end(services, services.find(run_id), _Tasks(ctx))


@app.task(name="dispatch", timeout_seconds=600, plan="standard")
@_settled
async def dispatch(_ctx: TaskContext) -> Answer:
    """One round of the dispatcher: messages become runs, each handed over as a task of its own."""
    from orchestration.triggers.dispatch import dispatch as run_round
    from orchestration.triggers.starters import choose_starter
    from orchestration.warehouse.connections import Role

    services = _services()
    with services.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        starter = choose_starter(services.settings)
        return run_round(services.settings, connection, _SPECS, starter).as_json()


def _stage_task(spec: PipelineSpec, stage: StageName) -> Any:
    @_settled
    async def pass_stage(_ctx: TaskContext, run_id: str, giver: str) -> Answer:
        from orchestration.triggers import tasks

        return tasks.pass_stage(_services(), run_id, stage, giver)

    return _register(spec, stage, stage, pass_stage)


def _chunk_task(spec: PipelineSpec) -> Any:
    @_settled
    async def pass_chunk(_ctx: TaskContext, run_id: str, partitions: list[str]) -> Answer:
        from orchestration.triggers import tasks

        return tasks.pass_chunk(_services(), run_id, partitions)

    return _register(spec, StageName.EXTRACT, "extract_chunk", pass_chunk)


def _register(spec: PipelineSpec, stage: StageName, name: str, body: Any) -> Any:
    """As a task with the options that the pipeline's policy for the stage comes to."""
    policy = spec.stages.policy(stage)
    return app.task(
        name=f"{spec.name}_{name}",
        retry=_RETRY(policy.max_attempts - 1),
        timeout_seconds=task_timeout_s(spec.stages, stage),
        plan=policy.plan.value,
    )(body)


_CHUNK_TASKS = {spec.name: _chunk_task(spec) for spec in _SPECS.values()}
_STAGE_TASKS = {
    (spec.name, stage): _stage_task(spec, stage) for spec in _SPECS.values() for stage in StageName
}


@dataclass(frozen=True)
class _Tasks:
    """`orchestration.triggers.walk.Tasks` on the platform."""

    ctx: TaskContext

    async def run_stage(self, run: Run, stage: StageName, giver: str) -> Any:
        return await self._run(_STAGE_TASKS[run.pipeline, stage], run.run_id, giver)

    async def run_chunk(self, run: Run, partitions: list[str]) -> Any:
        return await self._run(_CHUNK_TASKS[run.pipeline], run.run_id, partitions)

    async def _run(self, task: Any, *inputs: Any) -> Any:
        from render.client.errors import RenderError

        from orchestration.triggers.walk import TaskFailed

        try:
            return await self.ctx.run(task, *inputs)
        except RenderError as error:
            raise TaskFailed(str(error)) from None


def start_task(workflow: str, task: str, inputs: list[Any], key: str | None) -> str:
    """Has the platform start a task; its id there. Raises `NotStarted`.

    With the same key the platform answers with the task that it has started already.
    """
    from httpx import Timeout
    from render.client import Client
    from render.client.errors import RenderError
    from render.client.workflows_sync import SyncWorkflowsService

    from orchestration.triggers.starts import NotStarted

    try:
        client = Client()
    except ValueError:
        raise NotStarted("RENDER_API_KEY is not set; set it, then dispatch again") from None
    # Its own would wait for ever.
    client.internal = client.internal.with_timeout(Timeout(_ANSWER_S))
    try:
        with client.internal:
            service = SyncWorkflowsService(client)
            return str(service.start_task(f"{workflow}/{task}", inputs, idempotency_key=key).id)
    except RenderError as error:
        raise NotStarted(f"{type(error).__name__}: {error}") from None


def _services() -> Any:
    from orchestration.cli.progress import LoggedProgress
    from orchestration.cli.session import read_settings, start_services
    from orchestration.logs import configure_logs, get_logger
    from orchestration.triggers.tasks import Services

    settings = read_settings()
    configure_logs(settings.log_level)
    return Services(settings, start_services(settings, get_logger().info), LoggedProgress())

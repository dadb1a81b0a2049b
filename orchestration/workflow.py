"""The Render adapter: runs as tasks, and starting them. The only module that knows the platform.

A task raises only what the platform may retry; every other failure is returned, because a repeat
would not help. Durability is the checkpoints': a retried task finds what its predecessor finished.
Registration imports this module, so nothing here connects to anything or imports anything heavy.
"""

from typing import Any

from render.workflows import Retry, TaskContext, Workflows

# Above the sum of the stages' budgets, below the platform's limit of a day.
_TIMEOUT_S = 4 * 3600
# For the platform to answer that it has started a task.
_ANSWER_S = 10.0

app = Workflows(
    default_retry=Retry(max_retries=3, wait_duration_ms=20_000, backoff_scaling=2.0),
    default_timeout=_TIMEOUT_S,
)


class RetryableFailure(Exception):
    """A transient failure; the platform starts the task again, and the run resumes."""


@app.task(name="run_pipeline")
def run_pipeline(_ctx: TaskContext, pipeline: str, partitions: str = "") -> dict[str, Any]:
    """Brings partitions (`2013-01-01..2013-01-31`) of a pipeline to publication.

    Without partitions it does what the pipeline's schedule says is due. Returns the object that
    `sluice run --json` prints. Raises `RetryableFailure`.
    """
    from datetime import UTC, datetime

    from ingestion.partitions import day_windows
    from orchestration.pipelines.files import get_pipeline
    from orchestration.triggers.request import RunRequest
    from orchestration.triggers.schedule import scheduled_request
    from orchestration.triggers.start import run_request

    settings, warehouse, progress = _prepare()
    if partitions:
        request = RunRequest(pipeline=pipeline, days=day_windows(partitions))
    else:
        spec = get_pipeline(settings.pipelines_dir, pipeline)
        request = scheduled_request(spec, datetime.now(UTC))
    return _outcome(lambda: run_request(settings, warehouse, request, progress))


@app.task(name="execute")
def execute(_ctx: TaskContext, run_id: str) -> dict[str, Any]:
    """Brings a run that was accepted to its outcome. Returns and raises like `run_pipeline`."""
    from orchestration.runs.state import get_run
    from orchestration.triggers.start import drive_known_run, under_this_code
    from orchestration.warehouse.connections import Role

    settings, warehouse, progress = _prepare()
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        run = get_run(connection, run_id)
    return _outcome(
        lambda: drive_known_run(
            settings, warehouse, under_this_code(settings, warehouse, run), progress
        )
    )


@app.task(name="dispatch", timeout_seconds=600)
def dispatch(_ctx: TaskContext) -> dict[str, Any]:
    """One round of the dispatcher: messages become runs, each handed over as a task of its own."""
    from orchestration.pipelines.files import load_pipelines
    from orchestration.triggers.dispatch import dispatch as run_round
    from orchestration.triggers.starters import choose_starter
    from orchestration.warehouse.connections import Role

    settings, warehouse, _ = _prepare()
    pipelines = load_pipelines(settings.pipelines_dir)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        done = run_round(settings, connection, pipelines, choose_starter(settings))
    return done.as_json()


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


def _prepare() -> tuple[Any, Any, Any]:
    from orchestration.cli.progress import LoggedProgress
    from orchestration.cli.session import read_settings, start_services
    from orchestration.logs import configure_logs, get_logger

    settings = read_settings()
    configure_logs(settings.log_level)
    return settings, start_services(settings, get_logger().info), LoggedProgress()


def _outcome(drive: Any) -> dict[str, Any]:
    from orchestration.errors import Busy

    try:
        summary = drive()
    except Busy as busy:
        raise RetryableFailure(busy.message) from None
    failure = summary.ended.failure
    if failure is not None and failure.transient:
        raise RetryableFailure(failure.message)
    result: dict[str, Any] = summary.as_json()
    return result

"""The Render adapter: a run as a task. The only module that knows the workflow platform.

A task raises only what the platform may retry; every other failure is returned, because a repeat
would not help. Durability is the checkpoints': a retried task finds what its predecessor finished.
Registration imports this module, so nothing here connects to anything or imports anything heavy.
"""

from typing import Any

from render.workflows import Retry, TaskContext, Workflows

# Above the sum of the stages' budgets, below the platform's limit of a day.
_TIMEOUT_S = 4 * 3600

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
    from orchestration.cli.progress import LoggedProgress
    from orchestration.cli.session import read_settings, start_services
    from orchestration.errors import Busy
    from orchestration.logs import configure_logs, get_logger
    from orchestration.pipelines.files import get_pipeline
    from orchestration.triggers.request import RunRequest
    from orchestration.triggers.schedule import scheduled_request
    from orchestration.triggers.start import run_request

    settings = read_settings()
    configure_logs(settings.log_level)
    if partitions:
        request = RunRequest(pipeline=pipeline, days=day_windows(partitions))
    else:
        spec = get_pipeline(settings.pipelines_dir, pipeline)
        request = scheduled_request(spec, datetime.now(UTC))
    warehouse = start_services(settings, get_logger().info)
    try:
        summary = run_request(settings, warehouse, request, LoggedProgress())
    except Busy as busy:
        raise RetryableFailure(busy.message) from None
    if summary.ended.failure is not None and summary.ended.failure.transient:
        raise RetryableFailure(summary.ended.failure.message)
    return summary.as_json()

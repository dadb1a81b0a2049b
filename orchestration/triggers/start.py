"""From a request to an outcome in this process: accept it, then drive its run."""

from orchestration.code import read_code
from orchestration.pipelines.files import get_pipeline
from orchestration.runs.runner import execute_run
from orchestration.runs.summary import RunSummary
from orchestration.settings import Settings
from orchestration.stages.base import Progress
from orchestration.triggers.accept import accept
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.connections import Role, Warehouse


def run_request(
    settings: Settings, warehouse: Warehouse, request: RunRequest, progress: Progress
) -> RunSummary:
    """Failures of the run are in the summary. Raises `Busy`, `LeaseLost`, `ConfigurationError`."""
    pipeline = get_pipeline(settings.pipelines_dir, request.pipeline)
    code = read_code(settings.project_dir, pipeline)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        accepted = accept(connection, request, pipeline, code)
    return execute_run(settings, warehouse, pipeline, code, accepted.run.run_id, progress)

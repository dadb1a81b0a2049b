"""From a request, or from a run that is known already, to an outcome in this process."""

from ingestion.partitions import SNAPSHOT
from orchestration.code import read_code
from orchestration.model import Run, StageName
from orchestration.pipelines.files import get_pipeline
from orchestration.runs.leases import acquire, release
from orchestration.runs.recovery import supersede
from orchestration.runs.runner import execute_run
from orchestration.runs.state import get_run, read_partitions
from orchestration.runs.summary import RunSummary
from orchestration.runs.worker import Worker
from orchestration.settings import Settings
from orchestration.stages.base import Progress
from orchestration.triggers.accept import accept
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import run_lease

_LEASE_WAIT_S = 30.0


def run_request(
    settings: Settings, warehouse: Warehouse, request: RunRequest, progress: Progress
) -> RunSummary:
    """Failures of the run are in the summary.

    Raises `Busy`, `LeaseLost`, `Cancelled`, `ConfigurationError`.
    """
    run = accept_request(settings, warehouse, request)
    return drive_known_run(settings, warehouse, run, progress)


def accept_request(settings: Settings, warehouse: Warehouse, request: RunRequest) -> Run:
    """The run that the request is under this code. Raises `ConfigurationError`."""
    pipeline = get_pipeline(settings.pipelines_dir, request.pipeline)
    code = read_code(settings.project_dir, pipeline)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        return accept(connection, request, pipeline, code).run


def drive_known_run(
    settings: Settings, warehouse: Warehouse, run: Run, progress: Progress
) -> RunSummary:
    """Drives a run of this code to an outcome; raises like `run_request`."""
    return execute_run(worker_for(settings, warehouse, run, progress), run.run_id)


def worker_for(settings: Settings, warehouse: Warehouse, run: Run, progress: Progress) -> Worker:
    """This process, as it may work on the run."""
    pipeline = get_pipeline(settings.pipelines_dir, run.pipeline)
    code = read_code(settings.project_dir, pipeline)
    return Worker(settings, warehouse, pipeline, code, progress)


def under_this_code(settings: Settings, warehouse: Warehouse, run: Run) -> Run:
    """The run itself, or, when the code changed since, the run that its request is now.

    That run asks for the same revisions, so nothing that was fetched is fetched again. The old run
    says which one took its place. Raises `Busy` while somebody drives the old run.
    """
    pipeline = get_pipeline(settings.pipelines_dir, run.pipeline)
    code = read_code(settings.project_dir, pipeline)
    if code.code_id == run.code_id:
        return run
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        lease = acquire(connection, run_lease(run.run_id), wait_s=_LEASE_WAIT_S)
        try:
            known = get_run(connection, run.run_id)
            partitions = [item.partition for item in read_partitions(connection, run.run_id)]
            exact = not known.request.keys().isdisjoint({"revisions", "windows"})
            stop_after = known.request.get("stop_after")
            request = RunRequest(
                pipeline=known.pipeline,
                days=[] if exact else sorted({item.window for item in partitions} - {SNAPSHOT}),
                trigger_kind=known.trigger_kind,
                trigger_key=known.trigger_key,
                refresh=bool(known.request.get("refresh")),
                fetch_snapshots=bool(known.request.get("fetch_snapshots")),
                publish=known.publish,
                revisions=partitions if exact else (),
                stop_after=StageName(stop_after) if stop_after else None,
                as_of=known.as_of,
                correlation_id=known.correlation_id,
                workflow_id=known.workflow_id,
            )
            successor = accept(connection, request, pipeline, code).run
            supersede(connection, known, successor.run_id, lease)
        finally:
            release(connection, lease)
    return successor

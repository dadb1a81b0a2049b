"""What a process needs to work on a run: a folder, a heartbeat, a watch for cancellation, sessions.

All of it is gone with the process, however that ends, and nothing in it is needed to resume.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from expectations.session import begin_loading
from orchestration.code import Code
from orchestration.identity import RunId
from orchestration.logs import bind
from orchestration.pipelines.spec import PipelineSpec
from orchestration.runs.budget import Budget, stop_on_sigterm
from orchestration.runs.cancellation import CancelWatch
from orchestration.runs.checkpoints import read_checkpoints
from orchestration.runs.leases import Heartbeat
from orchestration.runs.state import get_run
from orchestration.runs.work_folder import work_folder
from orchestration.settings import Settings
from orchestration.stages.base import Progress, StageContext
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, run_lease


@dataclass(frozen=True)
class Worker:
    """A process of one state of the code that works on runs of one pipeline."""

    settings: Settings
    warehouse: Warehouse
    pipeline: PipelineSpec
    code: Code
    progress: Progress

    @contextmanager
    def begin(self, run_id: RunId, lease: Lease | None) -> Iterator[tuple[StageContext, Heartbeat]]:
        """What stages of the run may use while the context lasts; its partitions are not read yet.

        `lease` is the run's, and is kept alive. Without it nothing of the run's own can be written,
        and the units are what this process works under.
        """
        warehouse = replace(self.warehouse, worker=run_id)
        with ExitStack() as stack:
            connection = warehouse.connect(Role.RUNNER, autocommit=True)
            stack.callback(connection.close)
            run = get_run(connection, run_id)
            ids = {"run_id": run.run_id, "correlation_id": run.correlation_id}
            stack.enter_context(bind(workflow_id=run.workflow_id, **ids))
            work = stack.enter_context(work_folder(self.settings.home_dir / "work"))
            stack.enter_context(stop_on_sigterm())
            heartbeat = stack.enter_context(Heartbeat(warehouse))
            if lease is not None:
                stack.enter_context(heartbeat.keep(lease))
            watch = stack.enter_context(CancelWatch(warehouse, run.run_id))

            def check() -> None:
                heartbeat.check()
                watch.check()

            context = StageContext(
                settings=self.settings,
                warehouse=warehouse,
                pipeline=self.pipeline,
                run=run,
                code=self.code,
                connection=connection,
                # No lease ever has the fence 0, so every write under it is refused.
                run_lease=lease or Lease(run_lease(run_id), 0),
                progress=self.progress,
                check_leases=check,
                prepare=begin_loading,
                is_cancelled=watch.is_requested,
                read_checkpoints=lambda units: read_checkpoints(context.connection, units),
                budget=Budget(0),
                partitions=[],
                work_dir=work,
            )
            stack.callback(_close, context)
            yield context, heartbeat


def _close(context: StageContext) -> None:
    """Closes the connections that the context has by then, which may not be the first ones."""
    context.connection.close()
    context.sessions.close()

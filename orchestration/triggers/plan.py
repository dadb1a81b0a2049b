"""What a request would do, as a value: built without any side effect, printed by `--dry-run`."""

from dataclasses import dataclass
from typing import Any

from ingestion.partitions import Partition
from orchestration.code import Code
from orchestration.identity import RunId, run_id
from orchestration.pipelines.spec import PipelineSpec
from orchestration.triggers.accept import plan_revisions, trigger_key
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.artifacts import find_adopted
from orchestration.warehouse.connections import Role, Warehouse


@dataclass(frozen=True)
class RunPlan:
    """The run that the request is, and for each partition whether it would be fetched or reused."""

    run_id: RunId
    is_new: bool
    partitions: tuple[tuple[Partition, bool], ...]

    def as_json(self) -> dict[str, Any]:
        fetched = sum(1 for _, reused in self.partitions if not reused)
        return {
            "run_id": self.run_id,
            "run": "new" if self.is_new else "known; it would resume or answer",
            "fetch": fetched,
            "reuse": len(self.partitions) - fetched,
            "partitions": [
                {"partition": str(partition), "action": "reuse" if reused else "fetch"}
                for partition, reused in self.partitions
            ],
        }


def preview(
    warehouse: Warehouse, request: RunRequest, pipeline: PipelineSpec, code: Code
) -> RunPlan:
    """The plan of the request under this code, as the database stands now."""
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        key = trigger_key(connection, request)
        identity = run_id(pipeline.name, request.trigger_kind, key, code.code_id)
        known = connection.execute(
            "select 1 from ops.runs where run_id = %s", [identity]
        ).fetchone()
        revisions = plan_revisions(connection, request, pipeline, key)
        wanted = [
            Partition(resource, window, revision)
            for (resource, window), revision in sorted(revisions.items())
        ]
        adopted = find_adopted(connection, pipeline.name, [str(item) for item in wanted])
    return RunPlan(identity, known is None, tuple((item, str(item) in adopted) for item in wanted))

"""What a request would do, as a value: built without any side effect, printed by `--dry-run`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from ingestion.partitions import Partition
from orchestration.code import Code
from orchestration.identity import RunId, run_id
from orchestration.pipelines.spec import PipelineSpec
from orchestration.settings import Settings
from orchestration.triggers.accept import plan_revisions, trigger_key
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.artifacts import find_adopted
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.checks import check_models
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.manifests import compose_manifest
from orchestration.warehouse.outlook import ModelOutlook, look_ahead
from orchestration.warehouse.planning import keys_of, plan_now
from orchestration.warehouse.rebuilds import explain_rebuilds


@dataclass(frozen=True)
class RunPlan:
    """The run that the request is, for each partition whether it would be fetched or reused, and for
    each model what would be built of what is accepted already."""

    run_id: RunId
    is_new: bool
    partitions: tuple[tuple[Partition, bool], ...]
    models: tuple[ModelOutlook, ...]

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
            "models": [model.as_json() for model in self.models],
        }


def preview(
    settings: Settings,
    warehouse: Warehouse,
    request: RunRequest,
    pipeline: PipelineSpec,
    code: Code,
    tell: Callable[[str], None],
) -> RunPlan:
    """The plan of the request under this code, as the database stands now.

    `tell` hears what takes long. Raises `ConfigurationError` for a dbt project that would be refused.
    """
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
        tell("reading the dbt project")
        models = _models(settings, warehouse, connection, pipeline)
    return RunPlan(
        identity,
        known is None,
        tuple((item, str(item) in adopted) for item in wanted),
        tuple(models),
    )


def _models(
    settings: Settings,
    warehouse: Warehouse,
    connection: psycopg.Connection,
    pipeline: PipelineSpec,
) -> list[ModelOutlook]:
    """What the transform stage would build now, before anything more is fetched."""
    from orchestration.warehouse.dbt.project import load_graph

    manifest = compose_manifest(connection, pipeline.name)
    with TemporaryDirectory(prefix="sluice-plan-") as folder:
        session = DbtSession(
            project_dir=settings.dbt_project_dir,
            work_dir=Path(folder),
            # The gate's role can only read.
            url=warehouse.url(Role.GATE),
            cache_dir=settings.dbt_cache_dir,
        )
        graph = load_graph(session, pipeline.dbt.select)
    check_models(graph, pipeline.publishes)
    keys = keys_of(connection, graph, manifest)
    plan = plan_now(connection, graph, keys, "plan")
    rebuilds = explain_rebuilds(connection, pipeline.name, graph, keys, plan, manifest)
    return look_ahead(graph, plan, rebuilds)

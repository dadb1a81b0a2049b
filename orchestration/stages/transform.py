"""Transform: one version from one manifest and one state of the code; dbt builds only what is new.

Relations are built under names of this attempt alone and become part of the store by a fenced
adoption, so that a killed attempt leaves nothing that anybody reads.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import psycopg

from orchestration.errors import QualityFailure, TransformFailure
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import VersionId, digest, version_id
from orchestration.model import StageName
from orchestration.publication.shape_check import check_version_shapes
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.versions import version_models
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Conclusion,
    StageContext,
    Unit,
    UnitDone,
    UnitResult,
)
from orchestration.stages.build import build_models
from orchestration.warehouse.connections import Role
from orchestration.warehouse.dbt.checks import check_models
from orchestration.warehouse.dbt.keys import ModelKeys
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.fence import build_lease
from orchestration.warehouse.manifests import Manifest, compose_manifest, record_manifest
from orchestration.warehouse.planning import keys_of
from orchestration.warehouse.states import state_of
from orchestration.warehouse.store import (
    abandon_earlier,
    sweep_abandoned,
    verify_adopted,
)
from orchestration.warehouse.versions import VersionModel, VersionRecord, record_version

if TYPE_CHECKING:
    from orchestration.warehouse.dbt.graph import ProjectGraph


class TransformStage:
    """One unit: the manifest of everything accepted so far, and the dbt project."""

    name = StageName.TRANSFORM

    def units(self, context: StageContext) -> list[Unit]:
        manifest = compose_manifest(context.connection, context.pipeline.name)
        if not manifest.artifacts:
            raise QualityFailure(
                "no partition of this pipeline was ever accepted, so there is nothing to build from; "
                "see: sluice quarantine list",
                code="nothing_accepted",
            )
        context.memory["manifest"] = manifest
        spec = context.pipeline
        consumed = [
            manifest.manifest_id,
            context.code.dbt,
            list(spec.dbt.select),
            list(spec.publishes),
            spec.stages.transform.acceptance.model_dump(mode="json"),
        ]
        return [
            Unit(
                pipeline=spec.name,
                stage=self.name,
                source_partition=digest(consumed),
                lease_name=build_lease(spec.name),
                input_ref=manifest.manifest_id,
            )
        ]

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        return {
            unit
            for unit, found in checkpoints.items()
            # A version that retention dropped has no models left.
            if (models := version_models(context.connection, VersionId(found.output_ref or "")))
            and not verify_adopted(context.connection, [item.relation_name for item in models])
        }

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        [claim] = claims
        manifest: Manifest = context.memory["manifest"]
        record_manifest(context.connection, manifest, context.run.run_id, claim.lease)
        reach(FaultPoint.TRANSFORM_AFTER_MANIFEST)
        context.progress.update(self.name, "reading the dbt project")
        session = dbt_session(context, Role.TRANSFORMER, manifest)
        graph = load_project(context, session)
        check_models(graph, context.pipeline.publishes)
        with context.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
            keys = keys_of(connection, graph, manifest)
            abandon_earlier(connection, claim.lease)
            sweep_abandoned(connection)
            made = build_models(context, connection, session, graph, keys, claim)
            plan, relations = made.plan, made.relations
            identity = version_id(
                context.pipeline.name,
                manifest.manifest_id,
                {model: keys[model].content_key for model in relations},
                context.pipeline.publishes,
            )
            version = VersionRecord(
                version_id=identity,
                pipeline=context.pipeline.name,
                manifest_id=manifest.manifest_id,
                run_id=context.run.run_id,
                code_id=context.code.code_id,
                code_commit=context.code.commit,
                code_dirty=context.code.dirty,
                degraded=bool(context.memory.get("rejected")),
            )
            record_version(
                connection,
                version,
                _models(graph, keys, relations, context),
                claim.lease,
                state_of(connection, graph, keys),
            )
            reach(FaultPoint.TRANSFORM_AFTER_VERSION)
            self._check_acceptance(context, connection, identity)
            allowed = Allowed(context.pipeline.shape_changes)
            check_version_shapes(connection, context.pipeline.name, identity, allowed)
        yield UnitDone(
            claim.unit,
            output_ref=identity,
            checksum=digest(sorted(relations.items())),
            result={
                "built": sorted({item.model for item in plan.build}),
                "reused": sorted(item.model for item in plan.reuse),
                "partitions": {name: len(new) for name, new in plan.new_partitions.items()},
                "merged": sorted(item.model for item in plan.merges),
                "rebuilt": [item.as_json() for item in made.rebuilds],
            },
        )

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        [checkpoint] = finished.values()
        return Conclusion(checkpoint.output_ref or "")

    def _check_acceptance(
        self, context: StageContext, connection: psycopg.Connection, version: str
    ) -> None:
        wanted = context.pipeline.stages.transform.acceptance
        rows = connection.execute(
            "select m.model, m.published, r.row_count, r.columns "
            "from ops.version_models m join ops.relations r using (relation_name) "
            "where m.version_id = %s and r.state = 'adopted'",
            [version],
        ).fetchall()
        found = {row[0]: row for row in rows}
        problems = [
            f"{model} is published and was not built"
            for model in context.pipeline.publishes
            if model not in found
        ]
        for model, _, count, _ in rows:
            if (
                model in context.pipeline.publishes
                and count is not None
                and count < wanted.min_records
            ):
                problems.append(f"{model} has {count} rows, at least {wanted.min_records} wanted")
        for model, fields in wanted.required_fields.items():
            columns = {column["name"] for column in found[model][3]} if model in found else set()
            if absent := [field for field in fields if field not in columns]:
                problems.append(f"{model} lacks {', '.join(absent)}")
        if problems:
            raise TransformFailure(
                "; ".join(problems)
                + "; correct the model or stages.transform.acceptance, then run "
                "the same command again",
                code="transform_not_accepted",
            )


def dbt_session(context: StageContext, role: Role, manifest: Manifest) -> DbtSession:
    """dbt as this role, its sources showing this manifest."""
    return DbtSession(
        project_dir=context.settings.dbt_project_dir,
        work_dir=context.work_dir / f"dbt-{role.value}",
        url=context.warehouse.url(role, **{"sluice.manifest": manifest.manifest_id}),
        threads=context.pipeline.stages.transform.threads,
        cache_dir=context.settings.dbt_cache_dir,
    )


def load_project(context: StageContext, session: DbtSession) -> "ProjectGraph":
    """The parsed and compiled project; the gate of the same process need not do it again."""
    from orchestration.warehouse.dbt.project import load_graph

    if "graph" not in context.memory:
        spec = context.pipeline.dbt
        context.memory["graph"] = load_graph(session, spec.select)
    graph: ProjectGraph = context.memory["graph"]
    return graph


def _models(
    graph: "ProjectGraph",
    keys: dict[str, ModelKeys],
    relations: Mapping[str, str],
    context: StageContext,
) -> list[VersionModel]:
    return [
        VersionModel(
            model=model.name,
            relation_name=relations[model.name],
            content_key=keys[model.name].content_key,
            published=model.name in context.pipeline.publishes,
            parents=tuple(model.parents),
            resources=tuple(model.resources),
        )
        for model in graph.models
        if model.name in relations
    ]

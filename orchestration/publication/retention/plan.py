"""What goes, as a value: printed by `--dry-run`, carried out by `drop`. Building it changes nothing.

It is made anew under the lease before anything is dropped, so an old plan is never carried out.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import timedelta

from orchestration.pipelines.spec import Retention
from orchestration.publication.retention.facts import (
    ArtifactFact,
    PipelineFacts,
    QuarantineFact,
    RelationFact,
    StoreFacts,
    VersionFact,
)
from orchestration.publication.retention.needs import (
    Reason,
    kept_runs,
    kept_versions,
    needed_artifacts,
    needed_manifests,
    needed_relations,
    needs_schema,
    open_runs,
)

# A worker that was only paused may still load or build what was given up; sweeps look again so long.
SWEPT_FOR = timedelta(days=7)


@dataclass(frozen=True, kw_only=True)
class PipelinePlan:
    """What goes of one pipeline, in the order in which it goes.

    `artifacts` lose their rows in staging, and so do those that an earlier prune had `marked` when it
    died; of `forgotten_artifacts` not even a line is left.
    """

    pipeline: str
    kept: dict[str, Reason] = field(default_factory=dict)
    versions: tuple[VersionFact, ...] = ()
    schemas: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    artifacts: tuple[ArtifactFact, ...] = ()
    marked: tuple[ArtifactFact, ...] = ()
    runs: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    quarantine: tuple[QuarantineFact, ...] = ()
    forgotten_artifacts: tuple[ArtifactFact, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StorePlan:
    """What goes of the store, whatever stands on something first; `in_use` only others stand on."""

    relations: tuple[RelationFact, ...] = ()
    schemas: tuple[str, ...] = ()
    forgotten_relations: tuple[str, ...] = ()
    in_use: tuple[RelationFact, ...] = ()


def plan_pipeline(facts: PipelineFacts, policy: Retention) -> PipelinePlan:
    """Everything of the pipeline that nothing kept needs."""
    kept = kept_versions(facts, policy)
    running = open_runs(facts, policy)
    manifests = needed_manifests(facts, kept, running)
    artifacts = needed_artifacts(facts, manifests, running)
    runs = kept_runs(facts, policy, kept, running)
    adopted = [item for item in facts.artifacts if item.state == "adopted"]
    dropped = tuple(item for item in adopted if item.artifact_id not in artifacts)
    staying = {item.artifact_id for item in adopted} & artifacts
    decided = _decided_long_ago(facts, policy)
    return PipelinePlan(
        pipeline=facts.pipeline,
        kept=kept,
        versions=tuple(item for item in facts.versions if item.version_id not in kept),
        schemas=tuple(
            item.version_id
            for item in facts.versions
            if item.has_schema and item.version_id in kept and not needs_schema(item)
        ),
        manifests=tuple(
            item.manifest_id for item in facts.manifests if item.manifest_id not in manifests
        ),
        artifacts=dropped,
        marked=tuple(
            item for item in facts.artifacts if item.state == "dropped" and not item.is_empty
        ),
        runs=tuple(item.run_id for item in facts.runs if item.run_id not in runs),
        checkpoints=_pointless_checkpoints(facts, runs, staying | kept.keys()),
        quarantine=decided,
        forgotten_artifacts=_untold_artifacts(facts, runs, dropped),
    )


def plan_store(facts: StoreFacts, dropped_versions: Collection[str] = ()) -> StorePlan:
    """Every relation that nothing needs once `dropped_versions` are gone."""
    needed = needed_relations(facts, dropped_versions)
    unread = needed_relations(_without_readers(facts), dropped_versions)
    oldest = facts.now - SWEPT_FOR
    going = [item for item in facts.relations if item.state == "adopted"]
    return StorePlan(
        relations=tuple(
            sorted(
                (item for item in going if item.name not in needed),
                key=lambda item: (item.kind == "table", -item.order, item.name),
            )
        ),
        schemas=facts.schemas,
        forgotten_relations=tuple(
            item.name
            for item in facts.relations
            if item.state == "abandoned" and not item.exists and item.created_at < oldest
        ),
        in_use=tuple(item for item in going if item.name in needed and item.name not in unread),
    )


def _without_readers(facts: StoreFacts) -> StoreFacts:
    return replace(facts, relations=tuple(replace(item, readers=()) for item in facts.relations))


def _decided_long_ago(facts: PipelineFacts, policy: Retention) -> tuple[QuarantineFact, ...]:
    oldest = facts.now - timedelta(days=policy.quarantine_days)
    return tuple(
        item
        for item in facts.quarantine
        if item.decided_at is not None and item.decided_at <= oldest
    )


def _pointless_checkpoints(
    facts: PipelineFacts, runs: Collection[str], kept: Collection[str]
) -> tuple[str, ...]:
    """Those of forgotten runs that came to nothing that is kept."""
    return tuple(
        item.key
        for item in facts.checkpoints
        if item.run_id not in runs and item.output.isdisjoint(kept)
    )


def _untold_artifacts(
    facts: PipelineFacts,
    runs: Collection[str],
    dropped: Collection[ArtifactFact],
) -> tuple[ArtifactFact, ...]:
    """Artifacts without rows that no run that is kept and no quarantine tells of."""
    told = set().union(*(run.artifacts for run in facts.runs if run.run_id in runs))
    told |= {item.artifact_id for item in facts.quarantine}
    emptied = {item.artifact_id for item in dropped}
    oldest = facts.now - SWEPT_FOR
    return tuple(
        item
        for item in facts.artifacts
        if item.artifact_id not in told
        and (
            item.artifact_id in emptied
            or item.state == "dropped"
            or (item.state == "abandoned" and item.created_at < oldest)
        )
    )

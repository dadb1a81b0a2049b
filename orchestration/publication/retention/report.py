"""What a prune drops or would drop, with sizes, and what it leaves because somebody uses it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from orchestration.publication.retention.facts import ArtifactFact, RelationFact, VersionFact
from orchestration.publication.retention.plan import PipelinePlan, StorePlan


@dataclass(frozen=True)
class Left:
    """Something that would have gone, and who or what keeps it for now."""

    what: str
    why: str


@dataclass
class Pruned:
    """Rows for people and machines; `counts` are of what is many and has no name worth reading.

    Bytes of relations are measured, those of artifacts are their share of the staging table.
    """

    versions: list[dict[str, Any]] = field(default_factory=list)
    schemas: list[str] = field(default_factory=list)
    manifests: list[str] = field(default_factory=list)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    relations: list[dict[str, Any]] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left: list[Left] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    """Leases that runs kept for so long that what they guard was not looked at."""

    def add_version(self, version: VersionFact) -> None:
        self.versions.append(
            {
                "version_id": version.version_id,
                "pipeline": version.pipeline,
                "state": version.state,
                "created_at": version.created_at,
            }
        )

    def add_artifacts(self, artifacts: Iterable[ArtifactFact]) -> None:
        for item in artifacts:
            resource, window = item.window
            self.artifacts.append(
                {
                    "artifact_id": item.artifact_id,
                    "partition": f"{resource}/{window}@{item.revision}",
                    "rows": item.rows,
                    "bytes": item.bytes,
                }
            )
            self.counts["bytes"] += item.bytes

    def add_relation(self, relation: RelationFact) -> None:
        self.relations.append(
            {"relation": relation.name, "kind": relation.kind, "bytes": relation.bytes}
        )
        self.counts["bytes"] += relation.bytes

    def leave(self, what: str, why: str) -> None:
        """Notes it, once."""
        if not self.has_left(what):
            self.left.append(Left(what, why))

    def has_left(self, what: str) -> bool:
        return any(item.what == what for item in self.left)

    @property
    def is_empty(self) -> bool:
        """Whether nothing went."""
        named = (self.versions, self.schemas, self.manifests, self.artifacts, self.relations)
        return not any(named) and not self.runs and not self.counts.total()

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "counts": {name: count for name, count in sorted(self.counts.items()) if count}
        }


def would_prune(plans: Iterable[PipelinePlan], store: StorePlan) -> Pruned:
    """The plan in the same shape as what is reported when it was carried out."""
    answer = Pruned()
    for plan in plans:
        for version in plan.versions:
            answer.add_version(version)
        answer.schemas += plan.schemas
        answer.manifests += plan.manifests
        answer.add_artifacts((*plan.artifacts, *plan.marked))
        answer.counts["rows"] += sum(item.rows for item in (*plan.artifacts, *plan.marked))
        answer.runs += plan.runs
        answer.counts["checkpoints"] += len(plan.checkpoints)
        answer.counts["quarantine"] += len(plan.quarantine)
        answer.counts["artifacts_forgotten"] += len(plan.forgotten_artifacts)
    for relation in store.relations:
        answer.add_relation(relation)
    answer.schemas += store.schemas
    for relation in store.in_use:
        answer.leave(f"store.{relation.name}", readers_of(relation))
    return answer


def readers_of(relation: RelationFact) -> str:
    return f"read by {', '.join(relation.readers)}"

"""What the suites say about the partitions of a run: all of a resource's at once, each to blame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from expectations.gate import evaluate_many
from expectations.subject import (
    PARTITION,
    Subject,
    artifact_rows_query,
    partition_volume_query,
)
from expectations.suite import Suite
from expectations.verdict import Severity, Verdict
from orchestration.identity import digest
from orchestration.stages.acceptance import Finding
from orchestration.stages.base import StageContext
from orchestration.stages.suites import meaning, read_suite, suite_parameters
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.connections import Role
from orchestration.warehouse.names import staging_table


@dataclass(frozen=True)
class Judged:
    """One evaluation: a suite over the partitions of one resource."""

    resource: str
    suite: str


def _suites(context: StageContext, resource: str) -> list[str]:
    """The resource's suites: on its rows, and on the volume of its partitions."""
    spec = context.pipeline.resource(resource)
    return [name for name in (spec.suite, spec.volume_suite) if name]


def rules_of(context: StageContext) -> dict[str, dict[str, Any]]:
    """resource → everything that decides whether one of its partitions is accepted."""
    return {
        item.name: {
            "suites": meaning(context.settings.suites_dir, _suites(context, item.name)),
            "acceptance": context.pipeline.acceptance_of(item.name).model_dump(mode="json"),
        }
        for item in context.pipeline.resources
    }


def judged_checksum(artifact: Artifact, rules: Mapping[str, Any]) -> str:
    return digest([artifact.artifact_id, artifact.checksum, rules[artifact.resource]])


def evaluate_artifacts(
    context: StageContext, artifacts: list[Artifact]
) -> list[tuple[Judged, Verdict]]:
    """Every suite, each over all these artifacts of its resource together."""
    subjects: dict[Judged, Subject] = {}
    for resource in sorted({artifact.resource for artifact in artifacts}):
        group = [item for item in artifacts if item.resource == resource]
        spec = context.pipeline.resource(resource)
        for name in _suites(context, resource):
            suite = read_suite(context.settings.suites_dir, name)
            subjects[Judged(resource, name)] = artifact_subject(
                suite, group, context.run.as_of, volume=name == spec.volume_suite
            )
    if not subjects:
        return []
    verdicts = evaluate_many(
        subjects.values(),
        context.warehouse.url(Role.GATE),
        statement_timeout_s=max(10.0, context.budget.remaining_s),
    )
    return list(zip(subjects, verdicts, strict=True))


def artifact_subject(
    suite: Suite, artifacts: Sequence[Artifact], as_of: datetime, *, volume: bool
) -> Subject:
    """The rows of some artifacts of one resource, or with `volume` one row for each of them."""
    table = staging_table(artifacts[0].resource)
    if volume:
        query = partition_volume_query(
            "staging", table, {item.artifact_id: item.partition for item in artifacts}
        )
    else:
        query = artifact_rows_query("staging", table, [item.artifact_id for item in artifacts])
    parameters = suite_parameters(as_of, artifacts)
    return Subject(suite, "staging", None if volume else table, query, parameters, PARTITION)


def blame_partitions(
    resource: str,
    verdict: Verdict,
    adopted: Mapping[str, Artifact],
    findings: dict[str, list[Finding]],
) -> None:
    """Turns failed expectations into findings of the partitions whose rows broke them.

    A failure that no partition can be blamed for counts against all of them.
    """
    concerned = [item for item in adopted.values() if item.resource == resource]
    for severity in (Severity.CRITICAL, Severity.WARNING):
        for result in verdict.failures(severity):
            for artifact in concerned:
                unexpected = (result.partitions or {}).get(artifact.partition)
                if result.partitions and unexpected is None:
                    continue
                columns = ", ".join(result.columns)
                count = f" ({unexpected} records)" if unexpected else ""
                findings[artifact.artifact_id].append(
                    Finding(
                        f"{verdict.suite}:{result.type}({columns})",
                        f"{result.reason}{count}",
                        blocks=severity is Severity.CRITICAL,
                    )
                )

"""What the suites say about the partitions of a run: all of a resource's at once, each to blame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from expectations.gate import evaluate_many
from expectations.subject import (
    PARTITION,
    Subject,
    artifact_rows_query,
    day_before_query,
)
from expectations.suite import DAY_BEFORE, Suite
from expectations.verdict import ExpectationResult, Severity, Verdict
from expectations.volume import Usual, partition_volume_query
from ingestion.sources import get_resource
from orchestration.identity import digest
from orchestration.pipelines.stages import Policy
from orchestration.stages.acceptance import Finding
from orchestration.stages.base import StageContext
from orchestration.stages.suites import meaning, read_suite, suite_parameters
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.connections import Role
from orchestration.warehouse.history import days_before, usual_volumes
from orchestration.warehouse.names import staging_table
from orchestration.warehouse.states import stored_sources


@dataclass(frozen=True)
class Judged:
    """One evaluation: a suite over the partitions of one resource.

    `usual` says of a volume suite's artifacts what it compared them with; None for other suites.
    """

    resource: str
    suite: str
    usual: Mapping[str, Usual] | None = field(default=None, compare=False)


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
        | _policies(context, item.name)
        for item in context.pipeline.resources
    }


def _policies(context: StageContext, resource: str) -> dict[str, Any]:
    said = context.pipeline.policies
    found = {name: said[name].value for name in _suites(context, resource) if name in said}
    return {"policies": found} if found else {}


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
            if name == spec.volume_suite:
                usual = usual_volumes(context.connection, group)
                subject = volume_subject(suite, group, context.run.as_of, usual)
                subjects[Judged(resource, name, usual)] = subject
            else:
                subject = rows_subject(context.connection, suite, group, context.run.as_of)
                subjects[Judged(resource, name)] = subject
    if not subjects:
        return []
    verdicts = evaluate_many(
        subjects.values(),
        context.warehouse.url(Role.GATE),
        statement_timeout_s=max(10.0, context.budget.remaining_s),
    )
    return list(zip(subjects, verdicts, strict=True))


def rows_subject(
    connection: psycopg.Connection, suite: Suite, artifacts: Sequence[Artifact], as_of: datetime
) -> Subject:
    """The rows of some artifacts of one resource, with those of the day before where it is read."""
    table = staging_table(artifacts[0].resource)
    neighbours = {}
    if DAY_BEFORE in suite.reads:
        earlier = days_before(connection, artifacts)
        neighbours[DAY_BEFORE] = day_before_query("staging", table, earlier)
    return Subject(
        suite,
        "staging",
        table,
        artifact_rows_query("staging", table, [item.artifact_id for item in artifacts]),
        suite_parameters(as_of, artifacts),
        PARTITION,
        neighbours,
        row_key=suite.row_key or get_resource(artifacts[0].resource).contract.key,
        sensitive=stored_sources()[artifacts[0].resource].sensitive,
    )


def volume_subject(
    suite: Suite, artifacts: Sequence[Artifact], as_of: datetime, usual: Mapping[str, Usual]
) -> Subject:
    """One row for each of some artifacts of one resource."""
    table = staging_table(artifacts[0].resource)
    partitions: dict[str, str] = {item.artifact_id: item.partition for item in artifacts}
    query = partition_volume_query("staging", table, partitions, usual)
    parameters = suite_parameters(as_of, artifacts)
    return Subject(suite, "staging", None, query, parameters, PARTITION)


def blame_partitions(
    judged: Judged,
    verdict: Verdict,
    adopted: Mapping[str, Artifact],
    findings: dict[str, list[Finding]],
    policy: Policy | None = None,
) -> None:
    """Turns failed expectations into findings of the partitions whose rows broke them.

    A failure that no partition can be blamed for counts against all of them. `policy` is what the
    pipeline says of this suite, if it says anything.
    """
    concerned = [item for item in adopted.values() if item.resource == judged.resource]
    for severity in (Severity.CRITICAL, Severity.WARNING):
        for result in verdict.failures(severity):
            for artifact in concerned:
                if result.partitions and artifact.partition not in result.partitions:
                    continue
                columns = ", ".join(result.columns)
                findings[artifact.artifact_id].append(
                    Finding(
                        f"{verdict.suite}:{result.type}({columns})",
                        f"{result.reason}{_seen(judged, artifact, result)}",
                        blocks=severity is Severity.CRITICAL and policy is not Policy.WARN,
                        policy=policy,
                    )
                )


def _seen(judged: Judged, artifact: Artifact, result: ExpectationResult) -> str:
    """What was found in one partition, in brackets: how many records, or how much there is."""
    if judged.usual is None:
        count = (result.partitions or {}).get(artifact.partition)
        return f" ({count} records)" if count else ""
    usual = judged.usual[artifact.artifact_id]
    seen = f"{artifact.loaded or 0} records"
    if usual.row_count is not None:
        seen += f", {usual.row_count:g} are usual"
    if usual.hours_later is not None and usual.hours_later > 0:
        seen += f"; {usual.hours_later:.0f} hours later than usual"
    return f" ({seen})"

"""Validate: which partitions may enter a version, by their acceptance contract and their suite.

A partition that breaks a blocking rule goes to quarantine.partitions; its last good content stays in
use. Whether that holds the whole version is the resource's `on_rejected`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from orchestration.errors import QualityFailure
from orchestration.faultpoints import FaultPoint, reach
from orchestration.model import StageName
from orchestration.pipelines.spec import OnRejected
from orchestration.pipelines.stages import OnFailure, Policy
from orchestration.sql.queries import query
from orchestration.stages.acceptance import Finding, judge_artifact
from orchestration.stages.artifact_suites import (
    Judged,
    blame_partitions,
    evaluate_artifacts,
    judged_checksum,
    rules_of,
)
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Conclusion,
    StageContext,
    Unit,
    UnitDone,
    UnitResult,
)
from orchestration.stages.policies import gate_rules
from orchestration.stages.suites import (
    record_verdicts,
    refuse_errors,
)
from orchestration.warehouse.artifacts import Artifact, find_adopted
from orchestration.warehouse.connections import Role
from orchestration.warehouse.fence import Lease, assert_fence, build_lease
from orchestration.warehouse.quarantine import (
    discarded_records,
    judged_as_of,
    kept_out_rules,
    released_rules,
)


class ValidateStage:
    """One unit for each partition of the run; suites see all partitions of a resource at once."""

    name = StageName.VALIDATE

    def units(self, context: StageContext) -> list[Unit]:
        return [
            Unit(
                pipeline=context.pipeline.name,
                stage=self.name,
                source_partition=str(item.partition),
                lease_name=build_lease(context.pipeline.name),
                input_ref=str(item.partition),
            )
            for item in context.partitions
        ]

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        """A verdict holds for the same rows under the same rules, and while the database agrees."""
        rules, of_gate = rules_of(context), gate_rules(context)
        adopted = find_adopted(
            context.connection,
            context.pipeline.name,
            [unit.source_partition for unit in checkpoints],
        )
        valid = set()
        for unit, found in checkpoints.items():
            artifact = adopted.get(unit.source_partition)
            expected = "accepted" if found.result.get("accepted") else "rejected"
            if (
                artifact is not None
                and found.output_ref == artifact.artifact_id
                and found.checksum == judged_checksum(artifact, rules)
                and artifact.acceptance == expected
                and found.result.get("gate_rules") in (None, of_gate)
            ):
                valid.add(unit)
        return valid

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        rules, of_gate = rules_of(context), gate_rules(context)
        adopted = find_adopted(
            context.connection,
            context.pipeline.name,
            [claim.unit.source_partition for claim in claims],
        )
        context.progress.update(self.name, f"judging {len(claims)} partitions")
        findings = self._judge(context, list(adopted.values()))
        verdicts = evaluate_artifacts(context, list(adopted.values()))
        reach(FaultPoint.VALIDATE_AFTER_SUITES)
        refuse_errors({judged.suite: verdict for judged, verdict in verdicts})
        for judged, verdict in verdicts:
            policy = context.pipeline.policies.get(judged.suite)
            blame_partitions(judged, verdict, adopted, findings, policy)
        with context.connection.transaction():
            record_verdicts(
                context.connection,
                claims[0].lease,
                [
                    (
                        judged.resource,
                        judged.suite,
                        rules[judged.resource]["suites"][judged.suite],
                        verdict.to_dict() | {"policy": _policy(context, judged)},
                    )
                    for judged, verdict in verdicts
                ],
                pipeline=context.pipeline.name,
                run_id=context.run.run_id,
                stage=self.name,
            )
        reach(FaultPoint.VALIDATE_AFTER_VERDICTS)
        for claim in claims:
            artifact = adopted[claim.unit.source_partition]
            found = _record(
                context.connection,
                context,
                artifact,
                findings[artifact.artifact_id],
                of_gate,
                claim.lease,
            )
            reach(FaultPoint.VALIDATE_AFTER_ACCEPTANCE)
            yield UnitDone(
                claim.unit,
                output_ref=artifact.artifact_id,
                checksum=judged_checksum(artifact, rules),
                result={
                    "accepted": not any(item.blocks for item in found),
                    "findings": [
                        {
                            "rule": item.rule,
                            "message": item.message,
                            "blocks": item.blocks,
                            "policy": item.policy,
                        }
                        for item in found
                    ],
                    "gate_rules": of_gate if any(item.by_gate for item in found) else None,
                },
            )

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        rejected = left_out_partitions(context, finished)
        accepted = len(finished) - len(rejected)
        output = f"accepted/{accepted} of {len(finished)}"
        results = {unit.source_partition: found.result for unit, found in finished.items()}
        holding = [
            partition
            for partition in rejected
            if accepted == 0
            or context.pipeline.stages.validation.on_failure is OnFailure.FAIL
            or _holds(context, partition, results[partition])
        ]
        if not holding:
            return Conclusion(output)
        shown = ", ".join(holding[:5]) + (
            f" and {len(holding) - 5} more" if len(holding) > 5 else ""
        )
        return Conclusion(
            output,
            held=QualityFailure(
                f"not acceptable, so nothing was published: {shown}. See the reasons with: "
                f"sluice quarantine list --run {context.run.run_id}; then correct it (sluice quarantine "
                "retry), accept it as it is (sluice quarantine release), or, once the source has "
                "corrected the data, run the same command with --refresh",
                code="partition_rejected",
            ),
        )

    def _judge(self, context: StageContext, artifacts: list[Artifact]) -> dict[str, list[Finding]]:
        moments = judged_as_of(context.connection, [item.artifact_id for item in artifacts])
        with context.warehouse.connect(Role.GATE, autocommit=True) as connection:
            return {
                artifact.artifact_id: judge_artifact(
                    connection,
                    artifact,
                    context.pipeline.acceptance_of(artifact.resource),
                    moments.get(artifact.artifact_id, context.run.as_of),
                )
                for artifact in artifacts
            }


def _holds(context: StageContext, partition: str, result: Mapping[str, Any]) -> bool:
    """Whether a rule that the partition broke wants nothing to be published."""
    otherwise = context.pipeline.resource(partition.partition("/")[0]).on_rejected
    return any(
        (item.get("policy") or otherwise) == OnRejected.HOLD
        for item in result["findings"]
        if item["blocks"]
    )


def _policy(context: StageContext, judged: Judged) -> str:
    otherwise = context.pipeline.resource(judged.resource).on_rejected
    return context.pipeline.policies.get(judged.suite, otherwise).value


def rejected_partitions(finished: Mapping[Unit, Checkpoint]) -> list[str]:
    """The partitions that may not enter a version, by name."""
    return [
        unit.source_partition for unit, found in finished.items() if not found.result["accepted"]
    ]


def left_out_partitions(context: StageContext, finished: Mapping[Unit, Checkpoint]) -> list[str]:
    """Those of them that no accepted revision has come after; by name, in order."""
    rejected = rejected_partitions(finished)
    if not rejected:
        return []
    rows = context.connection.execute(
        query("quarantine_overtaken"), [context.pipeline.name, rejected]
    ).fetchall()
    return sorted(set(rejected) - {partition for (partition,) in rows})


def _record(
    connection: psycopg.Connection,
    context: StageContext,
    artifact: Artifact,
    findings: list[Finding],
    of_gate: str,
    lease: Lease,
) -> list[Finding]:
    """Writes down what was found; returns it with what a reviewer released no longer blocking.

    `of_gate` is the digest of the gate's rules.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        # A release locks this row too, so that neither goes unseen by the other.
        connection.execute(
            "select from ops.artifacts where artifact_id = %s for update", [artifact.artifact_id]
        )
        released = released_rules(connection, artifact.artifact_id)
        findings = [_waived(item, released) for item in findings]
        findings += [
            Finding(rule, message, policy=Policy.LEAVE_OUT, by_gate=True)
            if left_out
            else Finding(rule, message)
            for rule, message, left_out in kept_out_rules(connection, artifact.artifact_id, of_gate)
        ]
        if discarded := discarded_records(connection, artifact.artifact_id):
            findings.append(Finding("discarded_records", f"it has {discarded}, discarded since"))
        blocking = [item for item in findings if item.blocks]
        connection.execute(
            "update ops.artifacts set acceptance = %s, acceptance_reason = %s where artifact_id = %s",
            [
                "rejected" if blocking else "accepted",
                "; ".join(item.message for item in findings) or None,
                artifact.artifact_id,
            ],
        )
        for item in blocking:
            connection.execute(
                "insert into quarantine.partitions (pipeline, resource, partition, artifact_id, "
                "run_id, rule, error) values (%s, %s, %s, %s, %s, %s, %s) "
                "on conflict (artifact_id, rule) do nothing",
                [
                    context.pipeline.name,
                    artifact.resource,
                    artifact.partition,
                    artifact.artifact_id,
                    context.run.run_id,
                    item.rule,
                    item.message,
                ],
            )
    return findings


def _waived(finding: Finding, released: Mapping[str, str]) -> Finding:
    if not finding.blocks or finding.rule not in released:
        return finding
    return replace(finding, message=f"{finding.message} ({released[finding.rule]})", blocks=False)

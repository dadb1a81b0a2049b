"""Validate: which partitions may enter a version, by their acceptance contract and their suite.

A partition that breaks a blocking rule goes to quarantine.partitions; its last good content stays in
use. Whether that holds the whole version is the resource's `on_rejected`.
"""

from collections.abc import Iterator, Mapping, Sequence

import psycopg

from orchestration.errors import QualityFailure
from orchestration.faultpoints import FaultPoint, reach
from orchestration.model import StageName
from orchestration.pipelines.spec import OnRejected
from orchestration.pipelines.stages import OnFailure
from orchestration.stages.acceptance import Finding, judge_artifact
from orchestration.stages.artifact_suites import (
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
from orchestration.stages.suites import (
    record_verdicts,
    refuse_errors,
)
from orchestration.warehouse.artifacts import Artifact, find_adopted
from orchestration.warehouse.connections import Role
from orchestration.warehouse.fence import Lease, assert_fence, build_lease


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
        rules = rules_of(context)
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
            ):
                valid.add(unit)
        return valid

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        rules = rules_of(context)
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
            blame_partitions(judged.resource, verdict, adopted, findings)
        with context.connection.transaction():
            record_verdicts(
                context.connection,
                claims[0].lease,
                [
                    (
                        judged.resource,
                        judged.suite,
                        rules[judged.resource]["suites"][judged.suite],
                        verdict.to_dict(),
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
            found = findings[artifact.artifact_id]
            _record(context.connection, context, artifact, found, claim.lease)
            reach(FaultPoint.VALIDATE_AFTER_ACCEPTANCE)
            yield UnitDone(
                claim.unit,
                output_ref=artifact.artifact_id,
                checksum=judged_checksum(artifact, rules),
                result={
                    "accepted": not any(item.blocks for item in found),
                    "findings": [
                        {"rule": item.rule, "message": item.message, "blocks": item.blocks}
                        for item in found
                    ],
                },
            )

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        rejected = sorted(
            unit.source_partition
            for unit, found in finished.items()
            if not found.result["accepted"]
        )
        accepted = len(finished) - len(rejected)
        output = f"accepted/{accepted} of {len(finished)}"
        holding = [
            partition
            for partition in rejected
            if accepted == 0
            or context.pipeline.resource(partition.partition("/")[0]).on_rejected is OnRejected.HOLD
            or context.pipeline.stages.validation.on_failure is OnFailure.FAIL
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
                f"sluice quarantine list --run {context.run.run_id}; once the source has corrected "
                "the data, run the same command with --refresh",
                code="partition_rejected",
            ),
        )

    def _judge(self, context: StageContext, artifacts: list[Artifact]) -> dict[str, list[Finding]]:
        with context.warehouse.connect(Role.GATE, autocommit=True) as connection:
            return {
                artifact.artifact_id: judge_artifact(
                    connection,
                    artifact,
                    context.pipeline.acceptance_of(artifact.resource),
                    context.run.as_of,
                )
                for artifact in artifacts
            }


def rejected_partitions(finished: Mapping[Unit, Checkpoint]) -> list[str]:
    """The partitions that may not enter a version, by name."""
    return [
        unit.source_partition for unit, found in finished.items() if not found.result["accepted"]
    ]


def _record(
    connection: psycopg.Connection,
    context: StageContext,
    artifact: Artifact,
    findings: list[Finding],
    lease: Lease,
) -> None:
    blocking = [item for item in findings if item.blocks]
    with connection.transaction():
        assert_fence(connection, lease)
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

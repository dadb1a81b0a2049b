"""Gate: suites and dbt's data tests judge a version before anybody sees it.

A verdict that is not accepted holds the version until a reviewer decides; what is published stays. A
suite that could not be evaluated is an error of the stage, never a verdict on the data.
"""

from collections.abc import Iterator, Sequence

import psycopg

from orchestration.errors import QualityFailure
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import VersionId, digest
from orchestration.model import StageName
from orchestration.pipelines.stages import OnFailure
from orchestration.stages.base import (
    Checkpoint,
    Claim,
    Conclusion,
    StageContext,
    Unit,
    UnitDone,
    UnitResult,
)
from orchestration.stages.judging import Judging
from orchestration.stages.policies import gate_rules, leave_out, tell_warned
from orchestration.stages.under_test import read_under_test
from orchestration.warehouse.connections import Role
from orchestration.warehouse.fence import Lease, assert_fence, build_lease
from orchestration.warehouse.versions import create_version_views
from orchestration.warehouse.waivers import count_waivers, last_decision


class GateStage:
    """One unit: the version, what the suites mean, and the moment the run speaks for."""

    name = StageName.GATE

    def units(self, context: StageContext) -> list[Unit]:
        version = context.memory["version_id"]
        consumed = [version, gate_rules(context), context.run.as_of.isoformat()]
        return [
            Unit(
                pipeline=context.pipeline.name,
                stage=self.name,
                source_partition=digest(consumed),
                lease_name=build_lease(context.pipeline.name),
                input_ref=version,
            )
        ]

    def still_valid(self, context: StageContext, checkpoints: dict[Unit, Checkpoint]) -> set[Unit]:
        """A verdict is a fact about an immutable version; it is asked for again only when another
        verdict, by other rules, or a reviewer has had the last word since."""
        state = _state(context.connection, context.memory["version_id"])
        waivers = count_waivers(context.connection, context.pipeline.name)
        return {
            unit
            for unit, found in checkpoints.items()
            if (
                found.result.get("waivers", 0) == waivers
                if found.result["refused"]
                else state in ("passed", "published", "retired")
            )
        }

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        [claim] = claims
        version = VersionId(claim.unit.input_ref)
        under = read_under_test(context.connection, version, context.memory["manifest"])
        with context.warehouse.connect(Role.TRANSFORMER) as connection:
            create_version_views(connection, version, under.relations, claim.lease)
        reach(FaultPoint.GATE_AFTER_VIEWS)
        judging = Judging(context, under)
        judging.evaluate_suites()
        context.check_leases()
        reach(FaultPoint.GATE_AFTER_SUITES)
        judging.run_tests()
        reach(FaultPoint.GATE_AFTER_TESTS)
        with context.connection.transaction():
            judging.record(claim.lease)
            refused, left_out = judging.refused, list[str]()
            if refused and all(_may_leave_out(context, name) for name in refused):
                left_out = leave_out(context.connection, claim.lease, version, gate_rules(context))
            _settle(context, version, claim.lease, passed=not refused, goes_on=bool(left_out))
            _tell_warned(context, judging)
            waivers = count_waivers(context.connection, context.pipeline.name)
            if not refused:
                # A candidate's own schema has served; that of a held version is for its reviewer.
                context.connection.execute("select ops.drop_version_schema(%s)", [version])
        reach(FaultPoint.GATE_AFTER_VERDICTS)
        yield UnitDone(
            claim.unit,
            output_ref="refused" if refused else "passed",
            checksum=digest(judging.statuses),
            result={
                "verdicts": judging.statuses,
                "refused": refused,
                "waivers": waivers,
                "left_out": left_out,
            },
        )

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        [checkpoint] = finished.values()
        refused = checkpoint.result["refused"]
        version = context.memory["version_id"]
        output = checkpoint.output_ref or ""
        if _state(context.connection, version) == "rejected" and (
            rejection := last_decision(context.connection, version)
        ):
            return Conclusion(
                output,
                held=QualityFailure(
                    f"version {version} is {rejection}; it is not published. Correct the data, the "
                    "model or the rule, and repeat the run; what was set aside comes back with: "
                    "sluice quarantine release",
                    code="version_rejected",
                ),
            )
        if not refused:
            return Conclusion(output)
        if left_out := checkpoint.result.get("left_out"):
            return Conclusion(output, left_out=tuple(left_out))
        return Conclusion(
            output,
            held=QualityFailure(
                f"version {version} is held: {', '.join(refused)} did not pass. See which "
                f"expectations with: sluice gates show {context.run.run_id}; what is published stays "
                "until the data or the rule is corrected and the run is repeated, or a reviewer "
                f"decides: sluice review show {version}",
                code="gate_failed",
            ),
        )


def _state(connection: psycopg.Connection, version: VersionId) -> str | None:
    row = connection.execute(
        "select state from ops.versions where version_id = %s", [version]
    ).fetchone()
    return row[0] if row else None


def _may_leave_out(context: StageContext, suite: str) -> bool:
    return context.pipeline.policy_of(suite) is OnFailure.LEAVE_OUT


def _tell_warned(context: StageContext, judging: Judging) -> None:
    """Its owner hears what is published in spite of a rule, because the pipeline says so."""
    warned = [
        name
        for name, said in judging.statuses.items()
        if said == "failed" and context.pipeline.policy_of(name) is OnFailure.WARN
    ]
    if warned:
        tell_warned(context, judging.under.version_id, warned)


def _settle(
    context: StageContext,
    version: VersionId,
    lease: Lease,
    *,
    passed: bool,
    goes_on: bool = False,
) -> None:
    """candidate | passed | refused → passed | refused; a published version stays what it is.

    `goes_on`: the run does, without what it leaves out, so that nobody has to decide.
    """
    assert_fence(context.connection, lease)
    rejects = goes_on or context.pipeline.stages.gate.on_failure is OnFailure.FAIL
    refusal = "rejected" if rejects else "held"
    # What a gate rejected it may also think better of; what a reviewer rejected stays so.
    context.connection.execute(
        "update ops.versions v set state = %s where v.version_id = %s and (v.state = any(%s) "
        "or v.state = 'rejected' and not exists (select from ops.operator_actions o "
        "where o.target = v.version_id and o.action = 'review_reject'))",
        ["passed" if passed else refusal, version, ["candidate", "passed", "held"]],
    )

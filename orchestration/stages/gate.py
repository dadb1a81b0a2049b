"""Gate: suites and dbt's data tests judge a version before anybody sees it.

A verdict that is not accepted holds the version; what is published stays. A suite that could not be
evaluated is an error of the stage, never a verdict on the data.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from expectations.gate import evaluate_many
from expectations.subject import Subject
from expectations.verdict import Verdict
from orchestration.errors import ConfigurationError, DestinationFailure, QualityFailure
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import VersionId, digest
from orchestration.model import StageName
from orchestration.pipelines.stages import OnFailure
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
from orchestration.stages.suites import (
    meaning,
    read_suite,
    record_verdicts,
    refuse_errors,
    suite_parameters,
)
from orchestration.stages.transform import dbt_session, load_project
from orchestration.warehouse.connections import Role
from orchestration.warehouse.fence import Lease, assert_fence, build_lease
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.versions import create_version_views

if TYPE_CHECKING:
    from orchestration.warehouse.dbt.data_tests import TestOutcome

DBT_TESTS = "dbt data tests"


class GateStage:
    """One unit: the version, what the suites mean, and the moment the run speaks for."""

    name = StageName.GATE

    def units(self, context: StageContext) -> list[Unit]:
        version = context.memory["version_id"]
        suites = meaning(context.settings.suites_dir, context.pipeline.suites)
        consumed = [
            version,
            suites,
            context.code.dbt,
            context.run.as_of.isoformat(),
            context.pipeline.stages.gate.acceptance.model_dump(mode="json"),
        ]
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
        verdict, by other rules, has had the last word on the version's state."""
        row = context.connection.execute(
            "select state from ops.versions where version_id = %s", [context.memory["version_id"]]
        ).fetchone()
        may_pass = row is not None and row[0] in ("passed", "published", "retired")
        return {unit for unit, found in checkpoints.items() if may_pass or found.result["refused"]}

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        [claim] = claims
        version = VersionId(claim.unit.input_ref)
        models = {
            model.model: model.relation_name
            for model in version_models(context.connection, version)
        }
        with context.warehouse.connect(Role.TRANSFORMER) as connection:
            create_version_views(connection, version, models, claim.lease)
        reach(FaultPoint.GATE_AFTER_VIEWS)
        context.progress.update(self.name, f"evaluating {len(context.pipeline.suites)} suites")
        verdicts = self._suites(context, version, models)
        refuse_errors(verdicts)
        context.check_leases()
        reach(FaultPoint.GATE_AFTER_SUITES)
        context.progress.update(self.name, "running dbt's data tests")
        tests = self._data_tests(context, models)
        reach(FaultPoint.GATE_AFTER_TESTS)
        hashes = meaning(context.settings.suites_dir, context.pipeline.suites)
        rows: list[tuple[str, str, str, Mapping[str, Any]]] = [
            (version, name, hashes[name], verdict.to_dict()) for name, verdict in verdicts.items()
        ]
        rows.append((version, DBT_TESTS, context.code.dbt, _tests_as_verdict(tests)))
        statuses = {suite: verdict["status"] for _, suite, _, verdict in rows}
        accepted = {item.value for item in context.pipeline.stages.gate.acceptance.verdicts}
        refused = sorted(suite for suite, status in statuses.items() if status not in accepted)
        with context.connection.transaction():
            record_verdicts(
                context.connection,
                claim.lease,
                rows,
                pipeline=context.pipeline.name,
                run_id=context.run.run_id,
                stage=self.name,
            )
            _settle(context, version, claim.lease, passed=not refused)
            if not refused:
                # A candidate's own schema has served; that of a held version is for its reviewer.
                context.connection.execute("select ops.drop_version_schema(%s)", [version])
        reach(FaultPoint.GATE_AFTER_VERDICTS)
        yield UnitDone(
            claim.unit,
            output_ref="refused" if refused else "passed",
            checksum=digest(statuses),
            result={"verdicts": statuses, "refused": refused},
        )

    def conclude(self, context: StageContext, finished: dict[Unit, Checkpoint]) -> Conclusion:
        [checkpoint] = finished.values()
        refused = checkpoint.result["refused"]
        if not refused:
            return Conclusion(checkpoint.output_ref or "")
        version = context.memory["version_id"]
        return Conclusion(
            checkpoint.output_ref or "",
            held=QualityFailure(
                f"version {version} is held: {', '.join(refused)} did not pass. See which "
                f"expectations with: sluice gates show {context.run.run_id}; what is published stays "
                "until the data or the rule is corrected and the run is repeated",
                code="gate_failed",
            ),
        )

    def _suites(
        self, context: StageContext, version: VersionId, models: Mapping[str, str]
    ) -> dict[str, Verdict]:
        manifest: Manifest = context.memory["manifest"]
        parameters = suite_parameters(context.run.as_of, manifest.artifacts)
        subjects: dict[str, Subject] = {}
        for name in context.pipeline.suites:
            suite = read_suite(context.settings.suites_dir, name)
            if suite.name not in models:
                raise ConfigurationError(
                    f"suite {name} judges the model {suite.name}, which version {version} does not "
                    "have; add the model to the pipeline's dbt selection or remove the suite",
                    code="suite_without_model",
                )
            subjects[name] = Subject(suite, version, suite.name, None, parameters)
        if not subjects:
            return {}
        verdicts = evaluate_many(
            subjects.values(),
            context.warehouse.url(Role.GATE),
            settings={"sluice.manifest": manifest.manifest_id},
            statement_timeout_s=max(10.0, context.budget.remaining_s),
        )
        return dict(zip(subjects, verdicts, strict=True))

    def _data_tests(self, context: StageContext, models: Mapping[str, str]) -> "list[TestOutcome]":
        from orchestration.warehouse.dbt.data_tests import run_tests

        manifest: Manifest = context.memory["manifest"]
        session = dbt_session(context, Role.GATE, manifest)
        graph = load_project(context, dbt_session(context, Role.TRANSFORMER, manifest))
        outcomes = run_tests(session, graph, models)
        broken = [item for item in outcomes if item.status == "error"]
        if broken:
            message = (
                f"{len(broken)} dbt data tests could not be evaluated, the first is "
                f"{broken[0].name}: {broken[0].message}"
            )
            if any(item.transient for item in broken):
                raise DestinationFailure(
                    f"{message}; run the same command again",
                    code="gate_unavailable",
                    transient=True,
                )
            raise ConfigurationError(
                f"{message}; correct the test or the model, then run the same command again",
                code="data_test_error",
            )
        return outcomes


def _settle(context: StageContext, version: VersionId, lease: Lease, *, passed: bool) -> None:
    """candidate | passed | refused → passed | refused; a published version stays what it is."""
    assert_fence(context.connection, lease)
    # Where the gate itself rejects, it may also think better of it; else rejecting is a decision.
    refusal = "rejected" if context.pipeline.stages.gate.on_failure is OnFailure.FAIL else "held"
    context.connection.execute(
        "update ops.versions set state = %s where version_id = %s and state = any(%s)",
        ["passed" if passed else refusal, version, ["candidate", "passed", "held", refusal]],
    )


def _tests_as_verdict(outcomes: "Sequence[TestOutcome]") -> dict[str, Any]:
    """dbt's tests in the shape of a verdict: an error-level failure is critical."""
    failed = [item for item in outcomes if item.status == "fail"]
    warned = [item for item in outcomes if item.status == "warn"]
    return {
        "suite": DBT_TESTS,
        "status": "failed" if failed else "warned" if warned else "passed",
        "duration_s": None,
        "error": None,
        "statistics": {
            "expectations": len(outcomes),
            "passed": len(outcomes) - len(failed) - len(warned),
            "failed_critical": len(failed),
            "failed_warning": len(warned),
            "failed_info": 0,
            "errors": 0,
        },
        "results": [
            {
                "source": "dbt",
                "type": item.name,
                "columns": [item.column] if item.column else [],
                "severity": "critical" if item.severity == "error" else "warning",
                "success": item.status == "pass",
                "unexpected_count": item.failures,
                "reason": f"dbt data test on {item.model}",
            }
            for item in outcomes
        ],
    }

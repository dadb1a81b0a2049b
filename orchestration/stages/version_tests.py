"""dbt's data tests on one version: what each depends on, which of them are due, and their verdict."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from orchestration.errors import ConfigurationError, DestinationFailure
from orchestration.stages.under_test import UnderTest
from orchestration.warehouse.dbt.data_tests import (
    TestOutcome,
    chosen_tests,
    read_tests,
    run_tests,
)
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.plan import BuildPlan, PlannedRelation
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.dbt.test_reads import TestNode
from orchestration.warehouse.dbt.test_rules import test_rule, test_statement
from orchestration.warehouse.judgements import Basis, Rule
from orchestration.warehouse.planning import keys_of, sources_of

DBT_TESTS = "dbt data tests"


@dataclass(frozen=True)
class TestRule:
    test: TestNode
    rule: Rule


@dataclass(frozen=True)
class TestJudge:
    """The data tests that read models of one version."""

    under: UnderTest
    writer: Writer
    tests: tuple[TestNode, ...]

    def rules(self) -> list[TestRule]:
        checksums = self.under.manifest.checksums(self.writer.graph.resources)
        return [
            TestRule(test, test_rule(test, self.writer, self.under.content_keys, checksums))
            for test in self.tests
        ]

    def run(
        self, session: DbtSession, rules: Sequence[TestRule], bases: Mapping[Rule, Basis]
    ) -> list[TestOutcome]:
        """Runs these, each on what changed since its basis. Raises for what cannot be evaluated."""
        statements = {
            each.test.unique_id: test_statement(
                each.test, self.writer, self.under.slices, _changed(each.rule, bases)
            )
            for each in rules
        }
        outcomes = run_tests(
            session, self.writer.graph, self.under.relations, statements=statements
        )
        refuse_broken(outcomes)
        return outcomes


def read_test_judge(
    connection: psycopg.Connection, under: UnderTest, graph: ProjectGraph, session: DbtSession
) -> TestJudge:
    """`session` compiles the tests; the connection may be of any role that reads live and ops."""
    keys = keys_of(connection, graph, under.manifest)
    shown = tuple(
        PlannedRelation(
            model.name,
            under.content_keys[model.name],
            under.content_keys[model.name],
            under.relations[model.name],
            model.kind,
        )
        for model in graph.models
    )
    pieces = {name: slices.pieces for name, slices in under.slices.items()}
    plan = BuildPlan((), shown, pieces)
    writer = Writer(graph, keys, plan, sources_of(connection, graph, under.manifest))
    chosen = chosen_tests(graph, under.relations)
    return TestJudge(under, writer, tuple(read_tests(session, graph, chosen)))


def tests_as_verdict(
    outcomes: Iterable[TestOutcome], rules: Sequence[TestRule], bases: Mapping[Rule, Basis]
) -> dict[str, Any]:
    """dbt's tests in the shape of a verdict: an error-level failure is critical."""
    ran = {outcome.unique_id: outcome for outcome in outcomes}
    failed = [item for item in ran.values() if item.status == "fail"]
    warned = [item for item in ran.values() if item.status == "warn"]
    return {
        "suite": DBT_TESTS,
        "status": "failed" if failed else "warned" if warned else "passed",
        "duration_s": None,
        "error": None,
        "partitions": _looked_at([each for each in rules if each.test.unique_id in ran], bases),
        "statistics": {
            "expectations": len(ran),
            "passed": len(ran) - len(failed) - len(warned),
            "failed_critical": len(failed),
            "failed_warning": len(warned),
            "failed_info": 0,
            "errors": 0,
            "unchanged": len(rules) - len(ran),
        },
        "results": [as_result(item) for item in ran.values()],
    }


def as_result(outcome: TestOutcome) -> dict[str, Any]:
    """The outcome in the shape of an expectation's result."""
    return {
        "source": "dbt",
        "type": outcome.name,
        "columns": [outcome.column] if outcome.column else [],
        "severity": "critical" if outcome.severity == "error" else "warning",
        "success": outcome.status == "pass",
        "unexpected_count": outcome.failures,
        "reason": f"dbt data test on {outcome.model}",
    }


def _changed(rule: Rule, bases: Mapping[Rule, Basis]) -> Collection[str] | None:
    return bases[rule].changed if rule in bases else None


def _looked_at(ran: Iterable[TestRule], bases: Mapping[Rule, Basis]) -> list[str] | None:
    """The partitions that tests were run on; None for everything."""
    changed: set[str] = set()
    for each in ran:
        if each.rule not in bases:
            return None
        changed |= bases[each.rule].changed
    return sorted(changed)


def refuse_broken(outcomes: Iterable[TestOutcome]) -> None:
    """Raises for tests that could not be evaluated, transient if trying again may help."""
    broken = [item for item in outcomes if item.status == "error"]
    if not broken:
        return
    message = (
        f"{len(broken)} dbt data tests could not be evaluated, the first is "
        f"{broken[0].name}: {broken[0].message}"
    )
    if any(item.transient for item in broken):
        raise DestinationFailure(
            f"{message}; run the same command again", code="gate_unavailable", transient=True
        )
    raise ConfigurationError(
        f"{message}; correct the test or the model, then run the same command again",
        code="data_test_error",
    )

"""One gate at work: suites and data tests on a version, on what no earlier gate has accepted.

Nothing is written before `record`, and that in the caller's transaction. There it is also that what
reviewers have waived is taken into account.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from expectations.gate import evaluate_many
from expectations.verdict import Verdict
from orchestration.model import StageName
from orchestration.stages.base import StageContext
from orchestration.stages.breaches import (
    BreachFinder,
    failed_results,
    in_the_way,
    note_waivers,
    verdict_of,
)
from orchestration.stages.policies import accepted_verdicts
from orchestration.stages.suites import meaning, record_verdicts, refuse_errors
from orchestration.stages.transform import dbt_session, load_project
from orchestration.stages.under_test import UnderTest
from orchestration.stages.version_suites import SuiteJudge, SuiteRule, Unread
from orchestration.stages.version_tests import (
    DBT_TESTS,
    TestJudge,
    TestRule,
    read_test_judge,
    tests_as_verdict,
)
from orchestration.warehouse.connections import Role
from orchestration.warehouse.content import Contents
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.judgements import (
    Basis,
    Judged,
    Rule,
    find_bases,
    record_extremes,
    record_judgements,
)
from orchestration.warehouse.waivers import Breach, find_waivers, record_breaches

if TYPE_CHECKING:
    from orchestration.warehouse.dbt.data_tests import TestOutcome

_TEST_VERDICTS = {"pass": "passed", "warn": "warned", "fail": "failed"}


@dataclass
class Judging:
    """`bases` says for each rule what was accepted before; `said` is what was found now.

    `outcomes` are those of data tests. Once recorded, `breaches` are what stands in the version's way,
    `waived` the waivers that were used, by rule.
    """

    context: StageContext
    under: UnderTest
    bases: dict[Rule, Basis] = field(default_factory=dict)
    suite_rules: list[SuiteRule] = field(default_factory=list)
    test_rules: list[TestRule] = field(default_factory=list)
    said: dict[Rule, str] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Any]] = field(default_factory=dict)
    unread: Unread = field(default_factory=dict)
    outcomes: list[tuple[TestRule, "TestOutcome"]] = field(default_factory=list)
    breaches: list[Breach] = field(default_factory=list)
    waived: dict[Rule, list[int]] = field(default_factory=dict)

    @property
    def statuses(self) -> dict[str, str]:
        """suite → its verdict; dbt's data tests are one of them."""
        return {name: str(verdict["status"]) for name, verdict in self.verdicts.items()}

    @property
    def refused(self) -> list[str]:
        """The suites whose verdict does not let the version pass."""
        statuses = self.statuses
        return sorted(name for name, said in statuses.items() if said not in self._accepted(name))

    def _accepted(self, suite: str) -> frozenset[str]:
        return accepted_verdicts(self.context.pipeline, suite)

    def evaluate_suites(self) -> None:
        """Raises for the first suite that cannot be evaluated."""
        context, names = self.context, self.context.pipeline.suites
        judge = SuiteJudge(self.under, context.settings.suites_dir, context.run.as_of)
        self.suite_rules = judge.rules(names)
        # Mostly all suites accept the same, so that all are looked up at once.
        for accepted in {self._accepted(name) for name in names}:
            alike = [e.rule for e in self.suite_rules if self._accepted(e.name) == accepted]
            self._find_bases(alike, accepted)
        due = judge.due(self.suite_rules, self.bases)
        self.unread = judge.unread(context.connection, due)
        subjects = [judge.subject(each, self._changed(each.rule), self.unread) for each in due]
        context.progress.update(StageName.GATE, self._summary(due))
        found = evaluate_many(
            subjects,
            context.warehouse.url(Role.GATE),
            settings={"sluice.manifest": self.under.manifest.manifest_id},
            statement_timeout_s=max(10.0, context.budget.remaining_s),
        )
        said = dict(zip(due, found, strict=True))
        together: dict[str, Verdict] = {
            name: judge.verdict([r for r in self.suite_rules if r.name == name], self.bases, said)
            for name in dict.fromkeys(names)
        }
        refuse_errors(together)
        self.said |= {each.rule: verdict.status.value for each, verdict in said.items()}
        self.verdicts |= {name: verdict.to_dict() for name, verdict in together.items()}

    def run_tests(self) -> None:
        """Raises when a test cannot be evaluated."""
        context, manifest = self.context, self.under.manifest
        builder = dbt_session(context, Role.TRANSFORMER, manifest)
        graph = load_project(context, builder)
        with context.warehouse.connect(Role.TRANSFORMER, autocommit=True) as connection:
            judge: TestJudge = read_test_judge(connection, self.under, graph, builder)
        self.test_rules = judge.rules()
        tests = [each.rule for each in self.test_rules]
        self._find_bases(tests, self._accepted(DBT_TESTS))
        due = [each for each in self.test_rules if self._is_due(each.rule)]
        context.progress.update(
            StageName.GATE, f"running {len(due)} of {len(self.test_rules)} data tests"
        )
        outcomes: list[TestOutcome] = []
        if due:
            outcomes = judge.run(dbt_session(context, Role.GATE, manifest), due, self.bases)
        found = {outcome.unique_id: outcome for outcome in outcomes}
        self.outcomes = [(each, found[each.test.unique_id]) for each in due]
        self.said |= {each.rule: _TEST_VERDICTS[it.status] for each, it in self.outcomes}
        self.verdicts[DBT_TESTS] = tests_as_verdict(outcomes, self.test_rules, self.bases)

    def record(self, lease: Lease) -> None:
        """Keeps verdicts, what was accepted and what was not, and what was read; in the caller's
        transaction, which from here on no approval of the version comes between."""
        context = self.context
        context.connection.execute(
            "select from ops.versions where version_id = %s for update", [self.under.version_id]
        )
        self._weigh()
        for name, verdict in self.verdicts.items():
            verdict["policy"] = context.pipeline.policy_of(name).value
        hashes = meaning(context.settings.suites_dir, context.pipeline.suites)
        hashes[DBT_TESTS] = context.code.dbt
        verdict_ids = record_verdicts(
            context.connection,
            lease,
            [
                (self.under.version_id, name, hashes[name], verdict)
                for name, verdict in self.verdicts.items()
            ],
            pipeline=context.pipeline.name,
            run_id=context.run.run_id,
            stage=StageName.GATE,
        )
        record_judgements(
            context.connection,
            lease,
            context.pipeline.name,
            self.under.version_id,
            self._judged(verdict_ids),
        )
        record_breaches(
            context.connection,
            lease,
            self.under.version_id,
            context.run.run_id,
            self.breaches,
        )
        for (model, column), partitions in self.unread.items():
            slices = self.under.slices[model]
            record_extremes(context.connection, lease, slices, column, partitions)

    def _weigh(self) -> None:
        """Takes what reviewers have waived out of what failed; the rest stands in the way."""
        found = list(self._failed())
        waivers = find_waivers(
            self.context.connection,
            self.context.pipeline.name,
            [breach for _, _, _, breaches in found for breach in breaches],
        )
        for rule, name, result, breaches in found:
            used = [waivers[breach] for breach in breaches if breach in waivers]
            self.breaches += [breach for breach in breaches if breach not in waivers]
            if not used:
                continue
            note_waivers(result, breaches, used)
            self.waived.setdefault(rule, []).extend(each.waiver_id for each in used)
            verdict, severities = self.verdicts[name], in_the_way(self._accepted(name))
            verdict["status"] = verdict_of(verdict["results"], severities, verdict["status"])
            of_rule = [each for owner, _, each, _ in found if owner == rule]
            self.said[rule] = verdict_of(of_rule, severities, self.said[rule])

    def _failed(self) -> Iterator[tuple[Rule, str, dict[str, Any], list[Breach]]]:
        """Each failed result that is not accepted: its rule, its suite, and what is broken."""
        finder = BreachFinder(
            self.context.connection, self.context.pipeline.name, self.under, self._contents
        )
        by_id = {
            (each.name, item.expectation_id): each
            for each in self.suite_rules
            for item in each.group.items
        }
        for name in self.context.pipeline.suites:
            severities = in_the_way(self._accepted(name))
            for result in failed_results(self.verdicts[name], severities):
                each = by_id[name, result["expectation_id"]]
                changed = self._changed(each.rule)
                yield each.rule, name, result, finder.of_expectation(each, result, changed)
        tests = {each.test.name: (each, outcome) for each, outcome in self.outcomes}
        severities = in_the_way(self._accepted(DBT_TESTS))
        for result in failed_results(self.verdicts.get(DBT_TESTS, {"results": []}), severities):
            test, outcome = tests[result["type"]]
            breach = finder.of_test(test, outcome, self._changed(test.rule))
            yield test.rule, DBT_TESTS, result, [breach]

    def _judged(self, verdict_ids: Mapping[str, int]) -> Iterator[Judged]:
        """What is said of the version: as it was found now, or because nothing has changed."""
        found = [(each.rule, each.name) for each in self.suite_rules]
        found += [(each.rule, DBT_TESTS) for each in self.test_rules]
        for rule, name in found:
            basis, verdict = self.bases.get(rule), self.said.get(rule, "passed")
            if not (basis and basis.is_of(self.under.version_id)):
                waivers = tuple(self.waived.get(rule, ()))
                yield Judged(rule, verdict, basis, verdict_ids[name], waivers)

    def _find_bases(self, rules: Iterable[Rule], accepted: Collection[str]) -> None:
        self.bases |= find_bases(
            self.context.connection,
            self._contents,
            self.context.pipeline.name,
            self.under.version_id,
            rules,
            accepted,
            anew=self._was_judged_by_this_run,
        )

    @cached_property
    def _contents(self) -> Contents:
        return Contents(self.context.connection)

    @cached_property
    def _was_judged_by_this_run(self) -> bool:
        """Whether this is a repetition, which is to look again at what the first one looked at."""
        row = self.context.connection.execute(
            "select exists (select from ops.verdicts "
            "where run_id = %s and stage = %s and subject = %s)",
            [self.context.run.run_id, StageName.GATE, self.under.version_id],
        ).fetchone()
        return bool(row and row[0])

    def _is_due(self, rule: Rule) -> bool:
        return rule not in self.bases or bool(self.bases[rule].changed)

    def _changed(self, rule: Rule) -> frozenset[str] | None:
        return self.bases[rule].changed if rule in self.bases else None

    def _summary(self, due: list[SuiteRule]) -> str:
        suites = len({each.name for each in due})
        return f"evaluating {suites} of {len(set(self.context.pipeline.suites))} suites"

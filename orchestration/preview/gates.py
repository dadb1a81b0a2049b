"""The gates of a preview: the suites and dbt data tests that could say something new of it.

What neither the rows nor the rule changed for is not judged again; the published version's verdict
is shown. Nothing is written down.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import psycopg

from expectations.gate import evaluate_many
from expectations.parameters import Value
from expectations.scope import is_aggregate
from expectations.subject import PARTITION, Subject
from expectations.suite import Suite
from ingestion.partitions import SNAPSHOT
from orchestration.pipelines.spec import PipelineSpec
from orchestration.preview.base import Base
from orchestration.preview.plan import PreviewPlan, Tree
from orchestration.settings import Settings
from orchestration.stages.breaches import (
    content_of_rows,
    data_of,
    failed_results,
    in_the_way,
    note_waivers,
    resources_behind,
    verdict_of,
)
from orchestration.stages.policies import accepted_verdicts
from orchestration.stages.suites import meaning, refuse_errors, suite_parameters
from orchestration.stages.version_suite_files import read_version_suite
from orchestration.stages.version_tests import DBT_TESTS, as_result, refuse_broken
from orchestration.warehouse.dbt.data_tests import TestOutcome, chosen_tests, run_tests
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.test_changes import changed_tests
from orchestration.warehouse.names import staging_table
from orchestration.warehouse.waivers import Breach, find_waivers

# The suite of a model that is new and was not selected.
LEFT_OUT = "left_out"
_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class Judgement:
    """One suite, or all data tests. `verdict` is None where the published version's stands."""

    suite: str
    status: str
    verdict: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {"suite": self.suite, "status": self.status}
        if self.verdict is None:
            return said | {"judged": False, "failed": []}
        failed = [item for item in self.verdict["results"] if not item["success"]]
        return said | {"judged": True, "failed": failed}


@dataclass(frozen=True)
class Gate:
    """Judges what a preview built; `session` is dbt as the analyst, on the base's data.

    `connection` is the analyst's too.
    """

    connection: psycopg.Connection
    settings: Settings
    pipeline: PipelineSpec
    base: Base
    plan: PreviewPlan
    tree: Tree
    session: DbtSession

    def judge(self) -> list[Judgement]:
        """All suites of the pipeline and the data tests, in order.

        Raises what a run raises for rules that cannot be evaluated.
        """
        return [*self._suites(), self._data_tests()]

    def is_refused(self, judgement: Judgement) -> bool:
        accepted = accepted_verdicts(self.pipeline, judgement.suite)
        return judgement.status not in {*accepted, LEFT_OUT}

    def _suites(self) -> Iterator[Judgement]:
        hashes = meaning(self.settings.suites_dir, self.pipeline.suites)
        suites = {
            name: read_version_suite(self.settings.suites_dir, name, self.tree.graph.by_name.keys())
            for name in self.pipeline.suites
        }
        due = [
            name for name, suite in suites.items() if self._says_something_new(name, suite, hashes)
        ]
        verdicts = evaluate_many(
            [self._subject(suites[name]) for name in due],
            self.session.url,
            settings={"sluice.manifest": self.base.manifest.manifest_id},
            statement_timeout_s=_TIMEOUT_S,
        )
        found = dict(zip(due, verdicts, strict=True))
        refuse_errors(found)
        for name, suite in suites.items():
            if name in found:
                said = self._waived(name, suite, found[name].to_dict())
                yield Judgement(name, said["status"], said)
            else:
                known = self.base.verdicts.get(name)
                yield Judgement(name, known.status if known else LEFT_OUT)

    def _waived(self, name: str, suite: Suite, said: dict[str, Any]) -> dict[str, Any]:
        """The verdict with what reviewers have waived of it, in partitions of the same data."""
        severities = in_the_way(accepted_verdicts(self.pipeline, name))
        resources = resources_behind(suite.name, self.tree.graph.by_name)
        rows = {e.expectation_id for e in suite.expectations if not is_aggregate(e.type, e.scope)}
        for result in failed_results(said, severities):
            failed = result["expectation_id"]
            breaches = [
                Breach(
                    *(name, failed, result["type"], result["reason"], str(result["severity"])),
                    rule=None,
                    partition=partition,
                    content=content_of_rows(
                        name, failed, partition, data_of(partition, resources, self._windowed)
                    ),
                    failing=count,
                )
                for partition, count in (result["partitions"] or {}).items()
                if failed in rows
            ]
            used = find_waivers(self.connection, self.pipeline.name, breaches)
            note_waivers(result, breaches, used.values())
        said["status"] = verdict_of(said["results"], severities, said["status"])
        return said

    def _says_something_new(self, name: str, suite: Suite, hashes: Mapping[str, str]) -> bool:
        """Whether the rule changed, or any model that it judges or reads."""
        known = self.base.verdicts.get(name)
        if known is None:
            return suite.name not in self.plan.left_out
        reads = {suite.name, *suite.reads}
        return known.suite_hash != hashes[name] or not reads.isdisjoint(self.plan.changed)

    def _subject(self, suite: Suite) -> Subject:
        """All rows of the model; what is asked of each partition is asked of each."""
        keys = self.tree.keys[suite.name].partition_keys or {}
        partitioned = self.tree.graph.model(suite.name).is_partitioned
        return Subject(
            suite=suite,
            schema=self.plan.places.schema,
            table=suite.name,
            parameters=suite_parameters(self.base.as_of, self.base.manifest.artifacts),
            partition_column=PARTITION if partitioned else None,
            partitions={name: self._of_partition(name) for name in keys} if partitioned else {},
        )

    def _of_partition(self, name: str) -> dict[str, Value]:
        found = [self._windowed[resource].get(name) for resource in self._windowed]
        snapshots = [a for a in self.base.manifest.artifacts if a.window_name == SNAPSHOT]
        nothing: dict[str, Value] = {
            f"{count}{staging_table(resource)}": 0
            for resource in self._windowed
            for count in ("input_rows_", "input_partitions_")
        }
        held = [artifact for artifact in found if artifact is not None]
        return nothing | suite_parameters(self.base.as_of, [*snapshots, *held])

    @cached_property
    def _windowed(self) -> Mapping[str, Any]:
        return self.base.manifest.windows(self.tree.graph.resources)

    def _data_tests(self) -> Judgement:
        graph, relations = self.tree.graph, self.plan.build.relations
        edited = changed_tests(self.base.dbt_manifest, self.tree.dbt_manifest)
        due = {*chosen_tests(graph, relations, self.plan.changed)}
        due |= edited.intersection(chosen_tests(graph, relations))
        known = self.base.verdicts.get(DBT_TESTS)
        if not due and known is not None:
            return Judgement(DBT_TESTS, known.status)
        outcomes = run_tests(
            self.session,
            graph,
            relations,
            statements=dict.fromkeys(sorted(due)),
            places=self.plan.places,
        )
        refuse_broken(outcomes)
        return Judgement(DBT_TESTS, _worst(outcomes), {"results": list(map(as_result, outcomes))})


def _worst(outcomes: list[TestOutcome]) -> str:
    statuses = {outcome.status for outcome in outcomes}
    return "failed" if "fail" in statuses else "warned" if "warn" in statuses else "passed"

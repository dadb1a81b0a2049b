"""What failed in a version, one breach for each partition that a rule was broken in, so that a reviewer
can waive exactly that, or have exactly that set aside.

A failure that counts rows of a partition is known by the data that the partition is made from, and by
how many rows there are: an edited model does not raise it again. Any other failure is known by all
that decides it.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from expectations.scope import is_aggregate
from orchestration.identity import digest
from orchestration.sql.queries import query
from orchestration.stages.under_test import UnderTest
from orchestration.stages.version_suites import SuiteRule
from orchestration.stages.version_tests import TestRule
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.content import Contents
from orchestration.warehouse.judgements import Rule
from orchestration.warehouse.waivers import Breach, Waiver

if TYPE_CHECKING:
    from orchestration.warehouse.dbt.data_tests import TestOutcome


@dataclass(frozen=True)
class BreachFinder:
    """`contents` reads as the runner; `pipeline` is the one whose readers are asked about."""

    connection: psycopg.Connection
    pipeline: str
    under: UnderTest
    contents: Contents

    def of_expectation(
        self, each: SuiteRule, result: Mapping[str, Any], changed: Collection[str] | None
    ) -> list[Breach]:
        """A failed result of the rule's group, looked at on `changed` (None: on everything)."""
        columns = ", ".join(result["columns"])
        what = f"{result['type']}({columns})"
        resources = self._made_from(each.model)
        common = {
            "subject": each.rule.subject,
            "expectation": result["expectation_id"],
            "what": what,
            "severity": str(result["severity"]),
            "rule": each.rule.digest,
        }
        if not result["partitions"]:
            return [
                Breach(
                    **common,
                    error=result["reason"],
                    partition=None,
                    content=self._everything(each.rule, result["expectation_id"], changed),
                    failing=None,
                    artifacts=self._new(resources),
                )
            ]
        item = next(
            item for item in each.group.items if item.expectation_id == result["expectation_id"]
        )
        of_each = is_aggregate(item.type, item.scope)
        return [
            Breach(
                **common,
                error=result["reason"] if of_each else f"{result['reason']} ({count} rows)",
                partition=name,
                content=self._of_partition(each, item.expectation_id, name, of_each=of_each),
                failing=None if of_each else count,
                artifacts=self._new(resources, name),
            )
            for name, count in result["partitions"].items()
        ]

    def of_test(
        self, each: TestRule, outcome: "TestOutcome", changed: Collection[str] | None
    ) -> Breach:
        """A data test that failed; dbt does not say in which partition."""
        resources = {*each.test.resources}.union(*map(self._made_from, each.test.parents))
        count = f" ({outcome.failures} rows)" if outcome.failures else ""
        return Breach(
            subject=each.rule.subject,
            expectation=each.test.name,
            what=each.test.name,
            error=f"dbt data test on {outcome.model}{count}"
            if outcome.model
            else f"dbt data test{count}",
            severity="critical" if outcome.severity == "error" else "warning",
            rule=each.rule.digest,
            partition=None,
            content=self._everything(each.rule, each.test.name, changed),
            failing=None,
            artifacts=self._new(resources),
        )

    def _everything(self, rule: Rule, expectation: str, changed: Collection[str] | None) -> str:
        """All that was looked at; a rule that nobody knows the inputs of was, in this version."""
        version = self.under.version_id
        if rule.digest is None:
            return digest([rule.subject, expectation, version])
        held = self.contents.partitions(version, rule.parts)
        seen = {name: held.get(name) for name in (held if changed is None else changed)}
        return digest([rule.subject, expectation, rule.digest, seen])

    def _of_partition(self, each: SuiteRule, expectation: str, name: str, *, of_each: bool) -> str:
        windowed = self.under.windowed
        data = data_of(name, self._made_from(each.model), windowed)
        if not of_each and data:
            return content_of_rows(each.rule.subject, expectation, name, data)
        # One number of a whole partition: which rows it is about, nobody has counted.
        held = self.contents.partitions(self.under.version_id, each.rule.parts)
        return digest([each.rule.subject, expectation, name, [each.rule.digest, held.get(name)]])

    def _made_from(self, model: str) -> set[str]:
        return resources_behind(model, self.under.models)

    def _new(self, resources: Collection[str], window: str | None = None) -> tuple[str, ...]:
        """The version's artifacts of these resources (in this window) that readers do not have."""
        return tuple(
            artifact.artifact_id
            for artifact in self.under.manifest.artifacts
            if artifact.resource in resources
            and (window is None or artifact.window_name == window)
            and (artifact.resource, artifact.window_name, artifact.loaded, artifact.checksum)
            not in self._readers_have
        )

    @cached_property
    def _readers_have(self) -> frozenset[tuple[Any, ...]]:
        rows = self.connection.execute(query("breaches_readers_have"), [self.pipeline]).fetchall()
        return frozenset(rows)


class HasInputs(Protocol):
    """A model, with what it reads by itself."""

    @property
    def parents(self) -> tuple[str, ...]: ...

    @property
    def resources(self) -> tuple[str, ...]: ...


def resources_behind(model: str, models: Mapping[str, HasInputs]) -> set[str]:
    """The resources that a model comes from, through all its parents."""
    waiting, seen, found = [model], set[str](), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen and name in models:
            seen.add(name)
            found.update(models[name].resources)
            waiting.extend(models[name].parents)
    return found


def data_of(
    window: str, resources: Collection[str], windowed: Mapping[str, Mapping[str, Artifact]]
) -> dict[str, Any]:
    """What a partition is made from, by content; `windowed` is resource → window → artifact."""
    return {
        resource: [artifact.loaded, artifact.checksum]
        for resource in resources
        if (artifact := windowed.get(resource, {}).get(window)) is not None
    }


def content_of_rows(subject: str, expectation: str, partition: str, data: Mapping[str, Any]) -> str:
    """What rows of a partition that broke an expectation are known by, beside their number."""
    return digest([subject, expectation, partition, data])


def note_waivers(
    result: dict[str, Any], breaches: Collection[Breach], used: Collection[Waiver]
) -> None:
    """Writes into a failed result who has approved it; it is waived when all of it was."""
    if used:
        result["waivers"] = [each.as_json() for each in used]
        result["waived"] = len(used) == len(breaches)


def in_the_way(accepted: Collection[str]) -> frozenset[str]:
    """The severities whose failures the accepted verdicts do not allow."""
    severities = {"critical": "failed", "warning": "warned"}
    return frozenset(name for name, verdict in severities.items() if verdict not in accepted)


def failed_results(
    verdict: Mapping[str, Any], severities: Collection[str]
) -> Iterator[dict[str, Any]]:
    """The results of a stored verdict that did not hold, of these severities."""
    for result in verdict["results"]:
        if not result["success"] and str(result["severity"]) in severities:
            yield result


def verdict_of(
    results: Collection[Mapping[str, Any]], severities: Collection[str], otherwise: str
) -> str:
    """What results come to that reviewers have waived something of; `otherwise` when they have not."""
    if not any(result.get("waivers") for result in results):
        return otherwise
    left = {
        str(result["severity"])
        for result in results
        if not result["success"] and not result.get("waived")
    }.intersection(severities)
    return "failed" if "critical" in left else "warned" if left else "waived"

"""One suite of a pipeline on one version, by itself: read-only, and nothing is kept of it."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import psycopg

from expectations.gate import evaluate_many
from expectations.verdict import Verdict
from ingestion.partitions import SNAPSHOT
from orchestration.errors import ConfigurationError
from orchestration.failures import classify_evaluation
from orchestration.pipelines.spec import PipelineSpec, ResourceSpec
from orchestration.publication.versions import Version
from orchestration.stages.artifact_suites import rows_subject, volume_subject
from orchestration.stages.suites import read_suite
from orchestration.stages.under_test import UnderTest, read_under_test
from orchestration.stages.version_suites import SuiteJudge
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.history import usual_volumes
from orchestration.warehouse.judgements import Basis
from orchestration.warehouse.manifests import load_manifest


@dataclass(frozen=True)
class OneSuite:
    """What to evaluate: `partitions` are windows, None is everything that the version has."""

    name: str
    version: Version
    as_of: datetime
    partitions: tuple[str, ...] | None = None


def find_suite(pipeline: PipelineSpec, name: str) -> str:
    """The whole name of a suite of the pipeline, of which the last part is enough.

    Raises `ConfigurationError` with those that there are.
    """
    known = list(pipeline.suites)
    known += [s for r in pipeline.resources for s in (r.suite, r.volume_suite) if s is not None]
    found = [each for each in known if name in (each, each.rpartition("/")[2])]
    if len(found) != 1:
        raise ConfigurationError(
            f"pipeline {pipeline.name} has no suite {name!r}; choose from {', '.join(known)}",
            code="unknown_suite",
        )
    return found[0]


def evaluate_one(
    warehouse: Warehouse, pipeline: PipelineSpec, suites_dir: Path, wanted: OneSuite
) -> Verdict:
    """The verdict; a suite of a resource looks at the artifacts that the version is made from.

    Raises `ConfigurationError` for partitions that the version does not have, and what
    `classify_evaluation` says for a suite that cannot be evaluated.
    """
    with warehouse.connect(
        Role.GATE, autocommit=True, default_transaction_read_only="on"
    ) as connection:
        manifest = load_manifest(connection, wanted.version.manifest_id, pipeline.name)
        under = read_under_test(connection, wanted.version.version_id, manifest)
    resource = _resource_of(pipeline, wanted.name)
    verdict = (
        _on_artifacts(warehouse, under, resource, suites_dir, wanted)
        if resource is not None
        else _on_model(warehouse, under, suites_dir, wanted)
    )
    if verdict.error is not None:
        raise classify_evaluation(wanted.name, verdict.error)
    return verdict


def _on_model(
    warehouse: Warehouse, under: UnderTest, suites_dir: Path, wanted: OneSuite
) -> Verdict:
    judge = SuiteJudge(under, suites_dir, wanted.as_of)
    rules = judge.rules([wanted.name])
    bases = {}
    if wanted.partitions is not None:
        slices = under.slices.get(rules[0].model)
        _refuse_unknown(wanted, slices.visible if slices else ())
        changed = frozenset(wanted.partitions)
        # What speaks of everything is left out, as if it had been accepted before.
        bases = {
            each.rule: Basis(
                under.version_id, "passed", changed if each.by_partition else frozenset()
            )
            for each in rules
        }
    due = judge.due(rules, bases)
    subjects = [judge.subject(each, wanted.partitions) for each in due]
    found = evaluate_many(
        subjects,
        warehouse.url(Role.GATE),
        settings={"sluice.manifest": under.manifest.manifest_id},
    )
    return judge.verdict(rules, bases, dict(zip(due, found, strict=True)))


def _on_artifacts(
    warehouse: Warehouse,
    under: UnderTest,
    resource: ResourceSpec,
    suites_dir: Path,
    wanted: OneSuite,
) -> Verdict:
    held = [item for item in under.manifest.artifacts if item.resource == resource.name]
    if wanted.partitions is not None:
        _refuse_unknown(wanted, {item.window_name for item in held} - {SNAPSHOT})
        held = [item for item in held if item.window_name in wanted.partitions]
    if not held:
        raise ConfigurationError(
            f"version {under.version_id} has nothing of {resource.name}; name another version",
            code="nothing_to_judge",
        )
    suite = read_suite(suites_dir, wanted.name)
    with warehouse.connect(
        Role.GATE, autocommit=True, default_transaction_read_only="on"
    ) as connection:
        if wanted.name == resource.volume_suite:
            usual = usual_volumes(connection, held)
            subject = volume_subject(suite, held, wanted.as_of, usual)
        else:
            subject = rows_subject(connection, suite, held, wanted.as_of)
    [verdict] = evaluate_many([subject], warehouse.url(Role.GATE))
    return replace(verdict, partitions=wanted.partitions)


def _resource_of(pipeline: PipelineSpec, name: str) -> ResourceSpec | None:
    for resource in pipeline.resources:
        if name in (resource.suite, resource.volume_suite):
            return resource
    return None


def _refuse_unknown(wanted: OneSuite, known: Collection[str]) -> None:
    unknown = [name for name in wanted.partitions or () if name not in known]
    if unknown:
        raise ConfigurationError(
            f"version {wanted.version.version_id} has no partition {', '.join(unknown[:5])} that "
            f"suite {wanted.name} could look at; leave out --partitions to look at everything",
            code="unknown_partition",
        )


def moment_of(connection: psycopg.Connection, version: Version) -> datetime:
    """The moment that the run answered for which built the version."""
    row = connection.execute(
        "select as_of from ops.runs where run_id = %s", [version.run_id]
    ).fetchone()
    found: datetime = row[0] if row else version.created_at
    return found

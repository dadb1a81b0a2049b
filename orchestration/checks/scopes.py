"""Gates that cost more every night: rules on a partitioned model that look at all of it each time,
without saying that they mean to; and rules that depend on more than they declare.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expectations.document import SuiteError
from expectations.scope import SHAPE_TYPES, Manner
from expectations.suite import Suite, SuiteExpectation, load_suite
from orchestration.checks.declared import DeclaredPipeline
from orchestration.checks.finding import Finding, Severity, shown_path
from orchestration.errors import ConfigurationError
from orchestration.stages.version_suite_files import undeclared_input
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.test_reads import TestScope, declared_scope, read_test

SUITES, TESTS = "suites", "dbt"


@dataclass(frozen=True)
class PartitionedModel:
    """`leading` are the columns that an index of it begins with."""

    name: str
    leading: frozenset[str]


def partitioned_models(models: Iterable[Any]) -> dict[str, PartitionedModel]:
    """name → model, of dbt's nodes that have `partition_by`."""
    found = {}
    for node in models:
        if node.config.get("partition_by") is None:
            continue
        indexes = node.config.get("indexes") or ()
        leading = frozenset(str(index["columns"][0]) for index in indexes if index.get("columns"))
        found[node.name] = PartitionedModel(node.name, leading)
    return found


def check_suite_scopes(
    declared: Iterable[DeclaredPipeline],
    suites_dir: Path,
    models: Mapping[str, PartitionedModel],
) -> list[Finding]:
    """Suites of models: what they depend on, and how much of the model they look at."""
    findings = []
    for pipeline in declared:
        for name in pipeline.spec.suites:
            try:
                suite = load_suite(suites_dir / f"{name}.yml")
            except (OSError, SuiteError):
                continue
            for item, severity, message, hint in _suite_problems(suite, models.get(suite.name)):
                where = shown_path(suite.path, pipeline.project_dir, item.line)
                findings.append(Finding(severity, SUITES, where, message, hint))
    return findings


def _suite_problems(
    suite: Suite, model: PartitionedModel | None
) -> Iterator[tuple[SuiteExpectation, Severity, str, str]]:
    for item in suite.expectations:
        if (problem := undeclared_input(item)) is not None:
            message, _, hint = problem.partition("; ")
            yield item, Severity.ERROR, message, hint
        if model is None:
            continue
        if item.manner is Manner.KEYS and not model.leading & set(item.columns):
            yield item, Severity.WARNING, *_without_index(model, item.columns)
        elif item.manner is Manner.WHOLE and item.scope is None and item.type not in SHAPE_TYPES:
            message = f"every gate reads all of {suite.name} for it"
            hint = "write `scope: changed` in its meta if it is about each partition, else `all`"
            yield item, Severity.WARNING, message, hint


def check_test_scopes(graph: ProjectGraph, models: Mapping[str, PartitionedModel]) -> list[Finding]:
    """dbt's data tests on partitioned models, likewise."""
    known = {model.unique_id for model in graph.models} | set(graph.manifest.sources)
    findings: list[Finding] = []
    for unique_id, node in sorted(graph.manifest.nodes.items()):
        if node.resource_type != "test" or not set(node.depends_on.nodes) <= known:
            continue
        where = f"dbt_project/{node.original_file_path}:1"
        try:
            findings += _test_findings(graph, unique_id, where, models)
        except ConfigurationError as error:
            message, _, hint = error.message.partition("; ")
            findings.append(Finding(Severity.ERROR, TESTS, where, message, hint))
    return findings


def _test_findings(
    graph: ProjectGraph, unique_id: str, where: str, models: Mapping[str, PartitionedModel]
) -> Iterator[Finding]:
    test = read_test(graph, unique_id)
    read = sorted(set(test.parents) & set(models))
    if test.scope is TestScope.KEYS and not models[read[0]].leading & set(test.keys):
        message, hint = _without_index(models[read[0]], test.keys)
        yield Finding(Severity.WARNING, TESTS, where, f"{test.name}: {message}", hint)
    elif read and test.scope is TestScope.ALL and declared_scope(graph, unique_id) is None:
        message = f"{test.name}: every gate reads all of {', '.join(read)} for it"
        hint = "write meta: {scope: changed} in its config if it is about each partition, else all"
        yield Finding(Severity.WARNING, TESTS, where, message, hint)


def _without_index(model: PartitionedModel, keys: Iterable[str]) -> tuple[str, str]:
    return (
        f"no index of {model.name} begins with {' or '.join(keys)}, so every gate reads all of it",
        "add one to `indexes` in the model's config",
    )

"""The dbt project against pipelines and contracts: what is published exists, can be pinned and has
an owner; what is read exists under the name that the project gives it.

dbt parses and compiles here without a warehouse; nothing is built.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingestion.contracts import BOOKKEEPING
from ingestion.resources import Resource
from orchestration.checks.declared import DeclaredPipeline
from orchestration.checks.finding import Finding, Severity, shown_path, split_hint
from orchestration.checks.scopes import PartitionedModel, check_test_scopes, partitioned_models
from orchestration.errors import ConfigurationError, SluiceError
from orchestration.pipelines.files import read_document
from orchestration.pipelines.problems import line_of
from orchestration.settings import Settings
from orchestration.warehouse.dbt.checks import check_models
from orchestration.warehouse.dbt.project import load_graph, parse_project
from orchestration.warehouse.dbt.session import DbtSession

SUBJECT = "dbt"
_MODEL_AND_FILE = re.compile(r"(?P<model>\w+) \((?P<file>[^)\s]+)\): ")
_FILE = re.compile(r"\b(?:models|macros|tests|seeds)/[\w./-]+\.(?:sql|yml|yaml|md|csv)\b")
# Parsing opens no connection, but dbt wants a profile that names one.
_NO_WAREHOUSE = "postgresql://nobody@localhost/nothing"


@dataclass(frozen=True)
class DbtProject:
    """What the checks need of a parsed project; `models` and `sources` are dbt's own nodes by
    unique id.
    """

    models: Mapping[str, Any]
    groups_with_owner: frozenset[str]
    sources: Mapping[str, Any] = field(default_factory=dict)


def check_project(
    settings: Settings, declared: Sequence[DeclaredPipeline]
) -> tuple[DbtProject | None, list[Finding]]:
    """The parsed project (None when dbt refuses it) and everything that is wrong with it."""
    findings: list[Finding] = []
    with tempfile.TemporaryDirectory(prefix="sluice-check-") as folder:
        session = DbtSession(
            settings.dbt_project_dir,
            Path(folder),
            _NO_WAREHOUSE,
            cache_dir=settings.dbt_cache_dir,
        )
        try:
            manifest = parse_project(session)
        except SluiceError as error:
            message, hint = split_hint(
                " ".join(error.message.split()), "run `dbt parse` in dbt_project"
            )
            named = _FILE.search(message)
            file = settings.dbt_project_dir / (named[0] if named else "dbt_project.yml")
            where = shown_path(file, settings.project_dir, 1)
            return None, [Finding(Severity.ERROR, SUBJECT, where, message, hint)]
        models = partitioned_models(
            node for node in manifest.nodes.values() if node.resource_type == "model"
        )
        for pipeline in declared:
            findings += check_selection(pipeline, session, manifest, models)
    project = project_from(manifest)
    findings += check_published_models(declared, project)
    findings += check_required_columns(declared, model_columns(project))
    return project, findings


def check_selection(
    pipeline: DeclaredPipeline,
    session: DbtSession,
    manifest: Any,
    models: Mapping[str, PartitionedModel],
) -> list[Finding]:
    """The selected models depend on their inputs alone, and what is published is among them; their
    data tests look at no more than they have to."""
    existing = {node.name for node in manifest.nodes.values() if node.resource_type == "model"}
    try:
        graph = load_graph(session, pipeline.spec.dbt.select, manifest=manifest)
        check_models(graph, [name for name in pipeline.spec.publishes if name in existing])
    except ConfigurationError as error:
        listed = [line.strip() for line in error.message.splitlines() if line.startswith("  ")]
        return [_refusal(pipeline, text) for text in listed or [error.message]]
    return check_test_scopes(graph, models)


def _refusal(pipeline: DeclaredPipeline, text: str) -> Finding:
    """What begins with `model (file): ` belongs to that file, anything else to the selection."""
    message, hint = split_hint(text)
    if match := _MODEL_AND_FILE.match(message):
        where = f"dbt_project/{match['file']}:1"
        message = f"{match['model']}: {message[match.end() :]}"
        return Finding(Severity.ERROR, SUBJECT, where, message, hint)
    return pipeline.error(SUBJECT, ("dbt", "select"), message, hint)


def project_from(manifest: Any) -> DbtProject:
    """The part of dbt's manifest that is checked."""
    models = {key: node for key, node in manifest.nodes.items() if node.resource_type == "model"}
    owned = frozenset(group.name for group in manifest.groups.values() if group.owner.email)
    return DbtProject(models, owned, dict(manifest.sources))


def model_columns(project: DbtProject) -> dict[str, list[str]]:
    """Model name → columns, for the models whose contract names all of them."""
    return {
        node.name: list(node.columns)
        for node in project.models.values()
        if node.config.contract.enforced
    }


def check_published_models(
    declared: Iterable[DeclaredPipeline], project: DbtProject
) -> list[Finding]:
    """Every published model exists and belongs to a group with an owner."""
    by_name = {node.name: node for node in project.models.values()}
    findings = []
    for pipeline in declared:
        for index, name in enumerate(pipeline.spec.publishes):
            place = ("publishes", index)
            node = by_name.get(name)
            if node is None:
                message = f"the dbt project has no model {name}"
                hint = f"choose from: {', '.join(sorted(by_name))}"
                findings.append(pipeline.error(SUBJECT, place, message, hint))
                continue
            if node.config.group not in project.groups_with_owner:
                where = f"{Path('dbt_project', node.original_file_path)}:1"
                message = f"the published model {name} belongs to no group with an owner"
                hint = "give it a `group` whose owner has an email"
                findings.append(Finding(Severity.ERROR, SUBJECT, where, message, hint))
    return findings


def check_required_columns(
    declared: Iterable[DeclaredPipeline], columns: Mapping[str, Iterable[str]]
) -> list[Finding]:
    """The fields that the transform stage requires are columns of their models."""
    findings = []
    for pipeline in declared:
        required = pipeline.spec.stages.transform.acceptance.required_fields
        for model, fields in required.items():
            place = ("stages", "transform", "acceptance", "required_fields", model)
            missing = sorted(set(fields) - set(columns.get(model, fields)))
            if missing:
                message = f"{model} has no column {', '.join(missing)}"
                hint = "correct the name, or add the column to the model and its contract"
                findings.append(pipeline.error(SUBJECT, place, message, hint))
    return findings


def check_source_tables(
    project: DbtProject, known: Mapping[str, Resource], dbt_project_dir: Path, project_dir: Path
) -> list[Finding]:
    """Every source table is a resource, under the name of its view, with the contract's columns."""
    findings = []
    for table in project.sources.values():
        file = dbt_project_dir / table.original_file_path
        for place, message, hint in _table_problems(table, known):
            where = shown_path(file, project_dir, _line_of_table(file, table, place))
            findings.append(Finding(Severity.ERROR, SUBJECT, where, message, hint))
    return findings


def _table_problems(
    table: Any, known: Mapping[str, Resource]
) -> Iterator[tuple[str | None, str, str]]:
    """(column or None, what is wrong, what to do) for one source table."""
    name = f"{table.source_name}.{table.name}"
    resource = known.get(name)
    if resource is None:
        yield None, f"no source offers the resource {name}", _choice(known)
        return
    if table.identifier != resource.staging_table:
        yield (
            None,
            f"{name} reads {table.schema}.{table.identifier}, which is not its view",
            f"write `identifier: {resource.staging_table}`",
        )
    columns = (*resource.contract.columns, *BOOKKEEPING)
    for column in table.columns:
        if column not in columns:
            yield column, f"the contract of {name} has no column {column}", _choice(columns)


def _choice(names: Iterable[str]) -> str:
    return f"choose from: {', '.join(names)}"


def _line_of_table(file: Path, table: Any, column: str | None) -> int:
    """The line of a source table, or of one of its columns, in dbt's YAML."""
    document = read_document(file)
    for at, source in enumerate(document.get("sources", ())):
        for below, entry in enumerate(source.get("tables", ())):
            if (source.get("name"), entry.get("name")) != (table.source_name, table.name):
                continue
            place: tuple[int | str, ...] = ("sources", at, "tables", below)
            for position, declared in enumerate(entry.get("columns", ())):
                if declared.get("name") == column:
                    return line_of(document, (*place, "columns", position))
            return line_of(document, place)
    return 1

"""Resources: each one exists, its contract can read what is accepted, its variables are set."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import ingestion.sources
from expectations.volume import VOLUME_COLUMNS
from ingestion.contracts import BOOKKEEPING
from ingestion.errors import IngestionConfigurationError
from ingestion.fetch import check_source
from ingestion.resources import Resource
from ingestion.sources import get_source, list_sources
from orchestration.checks.declared import DeclaredPipeline
from orchestration.checks.finding import Finding, Severity, split_hint

SUBJECT = "sources"
_FOLDER = Path(ingestion.sources.__file__).parent


def registered_resources() -> tuple[dict[str, Resource], list[Finding]]:
    """Every resource that a source offers, by full name; none when one cannot be imported."""
    try:
        sources = list_sources()
    except IngestionConfigurationError as error:
        return {}, [broken_source(error)]
    return {resource.full_name: resource for source in sources for resource in source.resources}, []


def broken_source(error: IngestionConfigurationError) -> Finding:
    """What stopped the sources from being imported; the error begins with `file:line`."""
    where, separator, rest = error.message.partition(": ")
    if not separator:
        where, rest = "ingestion/sources", error.message
    message, hint = split_hint(rest, "correct the contract or the source's SOURCE")
    return Finding(Severity.ERROR, SUBJECT, where, message, hint)


def staging_columns(known: Mapping[str, Resource]) -> dict[str, list[str]]:
    """What suites may read: the columns of each staging table and of its volume by partition."""
    columns = {}
    for resource in known.values():
        columns[resource.staging_table] = [*resource.contract.columns, *BOOKKEEPING]
        columns[f"{resource.staging_table}__volume"] = list(VOLUME_COLUMNS)
    return columns


def check_resources(
    declared: Iterable[DeclaredPipeline], known: Mapping[str, Resource]
) -> list[Finding]:
    """Resources exist; accepted schema versions and required fields are those of the contract."""
    findings = []
    for pipeline in declared:
        for index, spec in enumerate(pipeline.spec.resources):
            resource = known.get(spec.name)
            if resource is None:
                hint = f"choose one of: {', '.join(sorted(known))}" if known else "add its source"
                message = f"no source offers the resource {spec.name}"
                findings.append(pipeline.error(SUBJECT, ("resources", index), message, hint))
                continue
            findings += _check_schema_versions(pipeline, resource)
            findings += _check_required_fields(pipeline, index, resource)
    return findings


def _check_schema_versions(pipeline: DeclaredPipeline, resource: Resource) -> list[Finding]:
    supported = set(resource.contract.supported_versions)
    accepted = set(pipeline.spec.stages.extract.acceptance.schema_versions)
    if accepted & supported:
        return []
    message = (
        f"none of the accepted schema versions is one that the contract of {resource.full_name} "
        f"can read ({', '.join(sorted(supported))})"
    )
    place = ("stages", "extract", "acceptance", "schema_versions")
    return [pipeline.error(SUBJECT, place, message, "accept a version that the contract reads")]


def _check_required_fields(
    pipeline: DeclaredPipeline, index: int, resource: Resource
) -> list[Finding]:
    required = pipeline.spec.acceptance_of(resource.full_name).required_fields
    place = ("resources", index, "acceptance", "required_fields")
    return [
        pipeline.error(
            SUBJECT,
            place,
            f"{resource.full_name} has no field {field}",
            f"choose from: {', '.join(resource.contract.columns)}",
        )
        for field in required
        if field not in resource.contract.columns
    ]


def check_source_variables(
    declared: Iterable[DeclaredPipeline],
    known: Mapping[str, Resource],
    environ: Mapping[str, str],
) -> list[Finding]:
    """Every source that a pipeline reads finds its variables in `environ`."""
    names = {name for pipeline in declared for name in pipeline.spec.resource_names}
    findings = []
    for source in sorted({known[name].source for name in names & set(known)}):
        for variable in check_source(get_source(source), environ):
            message = f"{variable} is not set, and the source {source} needs it"
            hint = "set it in the environment or in .env; .env.example explains it"
            findings.append(Finding(Severity.ERROR, SUBJECT, "environment", message, hint))
    return findings

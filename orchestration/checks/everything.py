"""All checks in order; each subject is checked as far as the one before it allows."""

from collections.abc import Sequence

import psycopg

from orchestration.checks.alerts import check_alerts
from orchestration.checks.dbt import check_project, check_source_tables, model_columns
from orchestration.checks.declared import (
    DeclaredPipeline,
    check_published_once,
    read_pipelines,
)
from orchestration.checks.environment import check_environment, source_environment
from orchestration.checks.finding import Finding, Severity
from orchestration.checks.freshness import check_model_freshness, check_resource_freshness
from orchestration.checks.scopes import check_suite_scopes, partitioned_models
from orchestration.checks.shapes import check_shape_changes
from orchestration.checks.sources import (
    check_resources,
    check_source_variables,
    registered_resources,
    staging_columns,
)
from orchestration.checks.suites import (
    check_expectations,
    check_resource_suites,
    check_suites,
)
from orchestration.checks.warehouse import check_warehouse, unreachable
from orchestration.settings import Settings
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer


def run_checks(settings: Settings, *, quick: bool = False) -> list[Finding]:
    """Everything that is wrong, errors first. `quick` leaves out dbt and Great Expectations.

    Does not raise for what it checks; takes about ten seconds, one when quick.
    """
    declared, findings = read_pipelines(settings.pipelines_dir, settings.project_dir)
    findings += check_published_once(declared)
    findings += check_alerts(declared, settings)
    resources, unusable = registered_resources()
    findings += unusable
    if not unusable:
        findings += check_resources(declared, resources)
        findings += check_source_variables(declared, resources, source_environment(settings))
        findings += check_resource_freshness(declared, resources)
    columns = staging_columns(resources)
    if not quick:
        project, found = check_project(settings, declared)
        findings += found
        if project is not None:
            columns |= model_columns(project)
            partitioned = partitioned_models(project.models.values())
            findings += check_suite_scopes(declared, settings.suites_dir, partitioned)
            findings += check_model_freshness(declared, settings.suites_dir, partitioned)
            if resources:
                findings += check_source_tables(
                    project, resources, settings.dbt_project_dir, settings.project_dir
                )
    findings += check_suites(declared, settings.suites_dir, columns)
    findings += check_resource_suites(declared, settings.suites_dir, resources)
    if not quick:
        findings += check_expectations(declared, settings.suites_dir)
    unusable = check_environment(settings)
    findings += unusable
    if all(finding.severity is Severity.WARNING for finding in unusable):
        findings += look_at_warehouse(settings, declared)
    return sorted(set(findings), key=lambda finding: (finding.severity, finding.where))


def look_at_warehouse(
    settings: Settings, declared: Sequence[DeclaredPipeline] = ()
) -> list[Finding]:
    """Connects as the owner if that is possible without starting anything."""
    url = _owner_url(settings)
    if url is None:
        return [
            unreachable("the embedded server does not run", "run `sluice up`, then check again")
        ]
    try:
        with Warehouse(url).connect(autocommit=True) as connection:
            return check_warehouse(connection) + check_shape_changes(connection, declared)
    except psycopg.OperationalError:
        # libpq's text may show the user and host; the person knows both.
        hint = "check SLUICE_WAREHOUSE_URL and the server"
        return [unreachable("it does not answer or refuses the login", hint)]


def _owner_url(settings: Settings) -> str | None:
    if settings.warehouse_url is not None:
        return settings.warehouse_url.get_secret_value()
    server = EmbeddedServer(settings.home_dir)
    return server.url() if server.is_running() else None

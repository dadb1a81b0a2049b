"""Suites that judge models: what one depends on must be known, or nobody could say what changed."""

from collections.abc import Collection
from pathlib import Path

from expectations.scope import SQL_TYPE
from expectations.suite import Suite, SuiteExpectation
from orchestration.errors import ConfigurationError
from orchestration.stages.suites import read_suite
from orchestration.warehouse.dbt.checks import hidden_inputs
from orchestration.warehouse.segments.texts import with_tables

_ROWS = '"sluice"."batch"."rows"'


def read_version_suite(suites_dir: Path, name: str, models: Collection[str]) -> Suite:
    """The suite of a model. Raises `ConfigurationError` when the version does not have that model
    or another one that the suite reads, or when its SQL reads what it does not declare."""
    suite = read_suite(suites_dir, name)
    for model in (suite.name, *sorted(suite.reads)):
        if model not in models:
            raise ConfigurationError(
                f"suite {name} judges the model {suite.name} and reads "
                f"{', '.join(sorted(suite.reads)) or 'nothing else'}, but the version does not have "
                f"{model}; add the model to the pipeline's dbt selection or correct the suite",
                code="suite_without_model",
            )
    problems = [
        f"{suite.path}:{item.line}: {problem}"
        for item in suite.expectations
        if (problem := undeclared_input(item)) is not None
    ]
    if problems:
        raise ConfigurationError("\n".join(problems), code="suite_file")
    return suite


def undeclared_input(item: SuiteExpectation) -> str | None:
    """What the SQL of an expectation depends on besides its rows and `meta.reads`, if anything."""
    if item.type != SQL_TYPE:
        return None
    try:
        query = str(item.kwargs["unexpected_rows_query"]).format(batch=_ROWS)
        tables = [(name, "select 1") for name in item.reads]
        found = hidden_inputs(with_tables(tables, query))
    except (ValueError, LookupError):
        return "its SQL cannot be read; look for a string or a brace that does not end"
    if not found:
        return None
    return (
        f"its SQL depends on {', '.join(found)}; name models bare and list them in `meta.reads`, "
        "and leave the moment to arguments of other expectations"
    )

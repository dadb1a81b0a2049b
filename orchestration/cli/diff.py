"""`sluice diff`: what differs between two versions, in words, Markdown or JSON."""

from collections.abc import Collection, Sequence

import psycopg

from orchestration.cli.output import console, print_json, print_text
from orchestration.cli.progress import choose_progress
from orchestration.cli.reading import reading
from orchestration.cli.session import prepare_logs, read_settings
from orchestration.comparison.compare import compare_sides
from orchestration.comparison.sides import version_side
from orchestration.comparison.value import VersionDiff
from orchestration.errors import ConfigurationError
from orchestration.publication.versions import (
    Version,
    get_version,
    published_version,
    resolve_version,
)
from orchestration.sql.rows import fetch
from orchestration.warehouse.connections import Role

PUBLISHED = "published"
FORMATS = ("text", "markdown", "json")


def diff(
    before: str, after: str, *, models: Sequence[str], output_format: str, pipeline: str | None
) -> None:
    require_format(output_format)
    prepare_logs(read_settings())
    with reading(Role.ANALYST) as connection, choose_progress(patient=True) as progress:
        old, new = _versions(connection, before, after, pipeline)
        sides = [version_side(connection, version, models) for version in (old, new)]
        _require_models({*sides[0].models, *sides[1].models}, models)
        found = compare_sides(
            connection,
            *sides,
            only=models or None,
            tell=lambda model: progress.update("compare", model),
        )
    show_diff(found, output_format)


def require_format(output_format: str) -> None:
    """Raises `ConfigurationError` (`unknown_format`)."""
    if output_format not in FORMATS:
        raise ConfigurationError(
            f"{output_format!r} is no format; write --format text, markdown or json",
            code="unknown_format",
        )


def show_diff(found: VersionDiff, output_format: str) -> None:
    match output_format:
        case "json":
            print_json(found.as_json())
        case "markdown":
            from orchestration.comparison.markdown import as_markdown

            print_text(as_markdown(found))
        case _:
            from orchestration.comparison.text import as_text

            console().print(as_text(found))


def published_by(connection: psycopg.Connection, pipeline: str | None) -> Version:
    """What readers see of the pipeline. Raises `ConfigurationError` when that is not one version."""
    rows = fetch(connection, "select pipeline from ops.publication_pointer order by 1")
    names = [row["pipeline"] for row in rows]
    if pipeline is None and len(names) > 1:
        raise ConfigurationError(
            f"say which pipeline's with --pipeline: {', '.join(names)}", code="which_pipeline"
        )
    name = pipeline or next(iter(names), "")
    current = published_version(connection, name)
    if current is None:
        of = f" by pipeline {name}" if name else ""
        raise ConfigurationError(
            f"nothing is published{of}; publish a version first: sluice run",
            code="nothing_published",
        )
    return get_version(connection, current)


def _versions(
    connection: psycopg.Connection, before: str, after: str, pipeline: str | None
) -> tuple[Version, Version]:
    """Both versions; `published` is that of the pipeline of the other one."""
    named = {
        name: resolve_version(connection, name, pipeline)
        for name in (before, after)
        if name != PUBLISHED
    }
    if PUBLISHED in (before, after):
        of = pipeline or next((version.pipeline for version in named.values()), None)
        named[PUBLISHED] = published_by(connection, of)
    old, new = named[before], named[after]
    if old.pipeline != new.pipeline:
        raise ConfigurationError(
            f"{old.version_id} is of pipeline {old.pipeline} and {new.version_id} of {new.pipeline}; "
            "compare versions of one pipeline: sluice versions list --pipeline NAME",
            code="other_pipeline",
        )
    return old, new


def _require_models(known: Collection[str], wanted: Sequence[str]) -> None:
    if unknown := sorted(set(wanted) - set(known)):
        raise ConfigurationError(
            f"neither version keeps rows of {', '.join(unknown)}; choose from "
            f"{', '.join(sorted(known))}, or a model that is kept as a table",
            code="unknown_model",
        )

"""The commands of people who change models; what they do is imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.options import Json, PipelineOption

_Side = "A version, or the beginning of its id, or `published`."


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help=_Side)],
    after: Annotated[str, typer.Argument(metavar="B", help=_Side)],
    model: Annotated[
        list[str] | None, typer.Option("--model", help="Only this model; may be given again.")
    ] = None,
    output_format: Annotated[
        str, typer.Option("--format", help="text, markdown or json.")
    ] = "text",
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """What differs between two versions: columns, rows, keys, values, by partition."""
    from orchestration.cli.diff import diff as command

    command(
        before,
        after,
        models=model or [],
        output_format="json" if json else output_format,
        pipeline=pipeline,
    )


def preview(
    select: Annotated[
        list[str] | None,
        typer.Option("--select", help="dbt's selection, e.g. fct_flights+; may be given again."),
    ] = None,
    pipeline: PipelineOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Build in schema dev_NAME; default: your own.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be built and why, change nothing.")
    ] = False,
    clean: Annotated[bool, typer.Option("--clean", help="Drop the preview instead.")] = False,
    output_format: Annotated[
        str, typer.Option("--format", help="text, markdown or json.")
    ] = "text",
    json: Json = False,
) -> None:
    """Build the working tree's models beside what is published, judge and compare them."""
    from orchestration.cli.preview import clean as drop
    from orchestration.cli.preview import preview as command

    if clean:
        drop(name=name, as_json=json)
        return
    command(
        pipeline=pipeline,
        select=select or [],
        name=name,
        dry_run=dry_run,
        output_format="json" if json else output_format,
    )


def state(
    output: Annotated[
        Path | None,
        typer.Option("--output", "--out", help="The folder; default: .sluice/state."),
    ] = None,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Write the published version's dbt manifest, for dbt's --state and --defer."""
    from orchestration.cli.state import state as command

    command(output=output, pipeline=pipeline, as_json=json)


ANALYST_COMMANDS = (diff, preview, state)

"""The commands that decide what is kept, and publish or trace it; imported when they run."""

from typing import Annotated

import typer

from orchestration.cli.options import Json, PipelineOption


def prune(
    pipeline: PipelineOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would go, with sizes; change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Drop what the retention policies no longer keep."""
    from orchestration.cli.prune import prune as command

    command(pipeline=pipeline, dry_run=dry_run, as_json=json)


KEEPING_COMMANDS = (prune,)

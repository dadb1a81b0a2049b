"""The commands that decide what is kept, and publish or trace it; imported when they run."""

from typing import Annotated

import typer

from orchestration.cli.operating import NO_REASON
from orchestration.cli.options import Json, NamedVersion, PipelineOption, ReasonOption


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


def pin(
    version: NamedVersion,
    reason: ReasonOption,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Keep a version, and show it in a schema of its own."""
    from orchestration.cli.pins import pin as command

    command(version, reason=reason, pipeline=pipeline, as_json=json)


def unpin(
    version: NamedVersion,
    reason: ReasonOption = NO_REASON,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Let a pinned version go again."""
    from orchestration.cli.pins import unpin as command

    command(version, reason=reason, pipeline=pipeline, as_json=json)


def publish(
    version: NamedVersion,
    allow_unmerged: Annotated[
        bool,
        typer.Option("--allow-unmerged", help="Also code that is not in main; needs --reason."),
    ] = False,
    reason: Annotated[str | None, typer.Option("--reason", help="Why; kept for ever.")] = None,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Publish a version that passed its gates."""
    from orchestration.cli.publish import publish as command

    command(version, allow_unmerged=allow_unmerged, reason=reason, pipeline=pipeline, as_json=json)


def lineage(
    item: Annotated[
        str,
        typer.Argument(
            metavar="ITEM",
            help="A version, a partition like flights.weather/2013-02-12, or a model.",
        ),
    ],
    json: Json = False,
) -> None:
    """From a version, partition or model to what it came from and where it went."""
    from orchestration.cli.lineage import lineage as command

    command(item, as_json=json)


KEEPING_COMMANDS = (prune, pin, unpin, publish, lineage)

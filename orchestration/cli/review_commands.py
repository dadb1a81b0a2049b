"""The commands with which reviewers decide about held versions; what they do is imported when they run."""

import typer

from orchestration.cli.options import Json, Limit, NamedVersion, PipelineOption
from orchestration.cli.quarantine_commands import NeededReason

review = typer.Typer(help="What waits for a decision, and deciding.", no_args_is_help=True)


@review.command("list")
def list_waiting(pipeline: PipelineOption = None, limit: Limit = 20, json: Json = False) -> None:
    """Held versions, quarantined partitions, runs that failed for good: the longest waiting first."""
    from orchestration.cli.review import list_waiting as command

    command(pipeline=pipeline, limit=limit, as_json=json)


@review.command("show")
def show(version: NamedVersion, pipeline: PipelineOption = None, json: Json = False) -> None:
    """One version: what stands in its way, what was waived, who decided."""
    from orchestration.cli.review import show as command

    command(version, pipeline=pipeline, as_json=json)


@review.command("approve")
def approve(
    version: NamedVersion,
    reason: NeededReason,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Waive what stands in the way of a held version; the next run publishes it."""
    from orchestration.cli.review import approve as command

    command(version, reason=reason, pipeline=pipeline, as_json=json)


@review.command("reject")
def reject(
    version: NamedVersion,
    reason: NeededReason,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Give a held version up, and set aside the data that broke its rules."""
    from orchestration.cli.review import reject as command

    command(version, reason=reason, pipeline=pipeline, as_json=json)

"""The commands of data reviewers on the quarantine; what they do is imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.operating import NO_REASON
from orchestration.cli.options import Json, Limit, PipelineOption, ReasonOption

quarantine = typer.Typer(help="Records and partitions that broke a rule.", no_args_is_help=True)

NeededReason = Annotated[str, typer.Option("--reason", help="Why; kept for ever.")]


@quarantine.command("list")
def list_entries(
    run: Annotated[str | None, typer.Option("--run", help="Only from this run.")] = None,
    resource: Annotated[str | None, typer.Option(help="Only of this resource.")] = None,
    rule: Annotated[str | None, typer.Option(help="Only those that broke this rule.")] = None,
    decision: Annotated[
        str | None,
        typer.Option(help="held (waits for one), superseded, retried, discarded or released."),
    ] = None,
    pipeline: PipelineOption = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Only counts, and whether they agree.")
    ] = False,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """Records and partitions that broke a rule, newest first."""
    from orchestration.cli import quarantine as commands

    if summary:
        commands.summarize(run=run, resource=resource, pipeline=pipeline, as_json=json)
        return
    commands.list_entries(
        run=run,
        resource=resource,
        rule=rule,
        decision=decision,
        pipeline=pipeline,
        limit=limit,
        as_json=json,
    )


@quarantine.command("show")
def show(
    entry: Annotated[str, typer.Argument(metavar="ID", help="record-12 or partition-3")],
    json: Json = False,
) -> None:
    """One entry: where it came from, rule, error, redacted payload, decisions, revisions."""
    from orchestration.cli.quarantine_show import show_entry as command

    command(entry, as_json=json)


@quarantine.command("retry")
def retry(
    records: Annotated[list[str], typer.Argument(metavar="RECORD...", help="record-12 record-13")],
    payload: Annotated[
        Path | None,
        typer.Option("--payload", help="JSON: the fields to correct; by record, if several."),
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Also build, judge and publish a version.")
    ] = False,
    reason: ReasonOption = NO_REASON,
    json: Json = False,
) -> None:
    """Check records again, as they are or corrected, and load those that pass."""
    from orchestration.cli.quarantine_decisions import retry as command

    command(records, payload=payload, publish=publish, reason=reason, as_json=json)


@quarantine.command("discard")
def discard(
    records: Annotated[list[str], typer.Argument(metavar="RECORD...", help="record-12 record-13")],
    reason: NeededReason,
    json: Json = False,
) -> None:
    """Decide that records are never loaded."""
    from orchestration.cli.quarantine_decisions import discard as command

    command(records, reason=reason, as_json=json)


@quarantine.command("release")
def release(
    partition: Annotated[
        str,
        typer.Argument(metavar="PARTITION", help="partition-3, or flights.weather/2013-02-12@1"),
    ],
    reason: NeededReason,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Accept a partition as it is, in spite of the rules that it broke."""
    from orchestration.cli.quarantine_decisions import release as command

    command(partition, reason=reason, pipeline=pipeline, as_json=json)

"""The commands that bring requests to runs by themselves; what they do is imported when they run."""

from typing import Annotated

import typer

from orchestration.cli.options import AsOf, Json, NamedPipeline


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8080,
    json: Json = False,
) -> None:
    """Serve webhooks, health, metrics and pages about runs."""
    from orchestration.cli.serve import serve as command

    command(host=host, port=port, as_json=json)


def dispatch(
    flush: Annotated[bool, typer.Option("--flush", help="Wait for no further messages.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be asked for, change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Turn messages that wait into runs, and start runs that were not started."""
    from orchestration.cli.dispatch import dispatch as command

    command(flush=flush, dry_run=dry_run, as_json=json)


def backfill(
    pipeline: NamedPipeline,
    partitions: Annotated[
        str, typer.Option("--partitions", help="2013-01-01..2013-12-31, ends included.")
    ],
    chunk: Annotated[int, typer.Option(min=1, max=366, help="Days that are loaded together.")] = 31,
    concurrency: Annotated[
        int, typer.Option(min=1, max=8, help="Chunks of the pipeline loaded at once, anywhere.")
    ] = 1,
    publish: Annotated[
        bool, typer.Option("--publish", help="Judge, build and publish once all are loaded.")
    ] = False,
    as_of: AsOf = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the chunks, change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Load many days beside what runs routinely; routine runs go first."""
    from orchestration.cli.backfill import backfill as command

    command(
        pipeline_name=pipeline,
        partitions=partitions,
        chunk=chunk,
        concurrency=concurrency,
        publish=publish,
        as_of=as_of,
        dry_run=dry_run,
        as_json=json,
    )


TRIGGER_COMMANDS = (serve, dispatch, backfill)

"""`sluice gates`: its commands with their options. What a command does is imported when it runs."""

from typing import Annotated

import typer

from orchestration.cli.options import Json, PipelineOption, RunArgument

gates = typer.Typer(help="What the suites said.", no_args_is_help=True)


@gates.command("list")
def gates_list(pipeline: PipelineOption = None, json: Json = False) -> None:
    """Suites with their latest verdicts."""
    from orchestration.cli.gate_list import list_suites as command

    command(pipeline=pipeline, as_json=json)


@gates.command("show")
def gates_show(run: RunArgument = None, json: Json = False) -> None:
    """Every suite's verdict, with the expectations that failed."""
    from orchestration.cli.gates import show as command

    command(run, as_json=json)


@gates.command("run")
def gates_run(
    suite: Annotated[
        str, typer.Argument(metavar="SUITE", help="A suite of the pipeline; its last part will do.")
    ],
    version: Annotated[
        str | None,
        typer.Option("--version", help="A version, or the beginning of its id; default: latest."),
    ] = None,
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", help="Only these days: 2013-01-01 or 2013-01-01..2013-01-31."),
    ] = None,
    as_of: Annotated[
        str | None,
        typer.Option("--as-of", help="The moment freshness is judged for; default: the run's."),
    ] = None,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Evaluate one suite on a version; nothing is recorded, and the version stays what it is."""
    from orchestration.cli.gate_run import run as command

    command(
        suite,
        version=version,
        pipeline_name=pipeline,
        partitions=partitions,
        as_of=as_of,
        as_json=json,
    )

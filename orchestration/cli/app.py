"""`sluice`: every command with its options. What a command does is imported when it runs."""

from typing import Annotated

import typer

from orchestration.cli.analysing import ANALYST_COMMANDS
from orchestration.cli.gate_commands import gates
from orchestration.cli.keeping import KEEPING_COMMANDS
from orchestration.cli.operating import OPERATOR_COMMANDS
from orchestration.cli.options import (
    AsOf,
    Json,
    Limit,
    NamedPipeline,
    PipelineOption,
    RunArgument,
    VersionArgument,
)
from orchestration.cli.quarantine_commands import quarantine
from orchestration.cli.review_commands import review
from orchestration.cli.role_commands import roles
from orchestration.cli.triggering import TRIGGER_COMMANDS

app = typer.Typer(
    name="sluice",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
runs = typer.Typer(help="What ran.", no_args_is_help=True)
versions = typer.Typer(help="What was built and published.", no_args_is_help=True)
sources = typer.Typer(help="Where data comes from.", no_args_is_help=True)
app.add_typer(runs, name="runs")
app.add_typer(versions, name="versions")
app.add_typer(quarantine, name="quarantine")
app.add_typer(review, name="review")
app.add_typer(gates, name="gates")
app.add_typer(sources, name="sources")
app.add_typer(roles, name="roles")


def _print_version(asked: bool) -> None:
    if asked:
        from orchestration.cli.version import version

        typer.echo(f"sluice {version()}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Recoverable ELT: load, transform, gate and publish, from wherever it got to."""


for command in (*OPERATOR_COMMANDS, *TRIGGER_COMMANDS, *ANALYST_COMMANDS, *KEEPING_COMMANDS):
    app.command()(command)


@app.command()
def up(json: Json = False) -> None:
    """Start the embedded Postgres and the demo service API in the background."""
    from orchestration.cli.environment import up as command

    command(as_json=json)


@app.command()
def down(
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Also delete the embedded warehouse.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Stop what `up` started; nothing is left behind."""
    from orchestration.cli.environment import down as command

    command(wipe=wipe, yes=yes, as_json=json)


@app.command()
def init(json: Json = False) -> None:
    """Bring the warehouse up to date: roles, migrations, staging tables, source views."""
    from orchestration.cli.environment import init as command

    command(as_json=json)


@app.command()
def demo(json: Json = False) -> None:
    """Run the flights pipeline for January and February 2013 and say what came of it."""
    from orchestration.cli.demo import demo as command

    command(as_json=json)


@app.command()
def check(
    quick: Annotated[
        bool, typer.Option("--quick", help="Leave out what needs dbt and Great Expectations.")
    ] = False,
    json: Json = False,
) -> None:
    """Check everything that people declare: pipelines, owners, suites, dbt, environment, roles."""
    from orchestration.cli.check import check as command

    command(quick=quick, as_json=json)


@app.command()
def run(
    pipeline: NamedPipeline,
    partitions: Annotated[
        str | None,
        typer.Option("--partitions", help="2013-01-01 or 2013-01-01..2013-01-31, ends included."),
    ] = None,
    due: Annotated[
        bool,
        typer.Option("--due", help="What the pipeline's schedule asks for at its latest tick."),
    ] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Fetch everything again, under new revisions.")
    ] = False,
    no_publish: Annotated[bool, typer.Option("--no-publish", help="Stop after the gate.")] = False,
    as_of: AsOf = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be fetched, change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Bring partitions to publication, or resume a run that was interrupted."""
    from orchestration.cli.run import run as command

    command(
        pipeline_name=pipeline,
        partitions=partitions,
        due=due,
        refresh=refresh,
        publish=not no_publish,
        as_of=as_of,
        dry_run=dry_run,
        as_json=json,
    )


@runs.command("list")
def runs_list(
    pipeline: PipelineOption = None,
    outcome: Annotated[str | None, typer.Option(help="Only runs that ended like this.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """The newest runs."""
    from orchestration.cli.runs import list_runs as command

    command(pipeline=pipeline, outcome=outcome, limit=limit, as_json=json)


@runs.command("show")
def runs_show(run: RunArgument = None, json: Json = False) -> None:
    """One run: request, code, partitions, stages, attempts."""
    from orchestration.cli.runs import show_run as command

    command(run, as_json=json)


@versions.command("list")
def versions_list(
    pipeline: PipelineOption = None,
    state: Annotated[str | None, typer.Option(help="Only versions in this state.")] = None,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """The newest versions; the published one is marked."""
    from orchestration.cli.versions import list_them as command

    command(pipeline=pipeline, state=state, limit=limit, as_json=json)


@versions.command("show")
def versions_show(version: VersionArgument = None, json: Json = False) -> None:
    """One version: manifest, code, models with their relations, publications."""
    from orchestration.cli.versions import show as command

    command(version, as_json=json)


@app.command()
def rollback(
    reason: Annotated[str, typer.Option("--reason", help="Why; kept for ever.")],
    version: VersionArgument = None,
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Publish an earlier version; without VERSION the one before the current."""
    from orchestration.cli.versions import roll_back as command

    command(version, reason=reason, pipeline=pipeline, as_json=json)


@sources.command("list")
def sources_list(json: Json = False) -> None:
    """Sources and their resources."""
    from orchestration.cli.sources import list_them as command

    command(as_json=json)


@sources.command("show")
def sources_show(
    name: Annotated[str, typer.Argument(help="A source, or source.resource.")], json: Json = False
) -> None:
    """One source, or one resource with its fields."""
    from orchestration.cli.sources import show as command

    command(name, as_json=json)


@sources.command("new")
def sources_new(name: Annotated[str, typer.Argument()], json: Json = False) -> None:
    """Write a new source: contract, resource, staging model, suite, test."""
    from orchestration.cli.sources import new as command

    command(name, as_json=json)


@app.command()
def dsn(
    role: Annotated[str | None, typer.Option(help="Default: the owner.")] = None, json: Json = False
) -> None:
    """Print the connection URL of the warehouse."""
    from orchestration.cli.connect import dsn as command

    command(role, as_json=json)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(
    context: typer.Context,
    role: Annotated[str | None, typer.Option(help="Default: the owner.")] = None,
) -> None:
    """Open psql on the warehouse; what follows -- goes to psql."""
    from orchestration.cli.connect import psql as command

    command(role, context.args)

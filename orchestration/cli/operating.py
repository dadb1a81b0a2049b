"""The commands that go on with runs and watch them; what they do is imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from orchestration.cli.options import Json, NamedRun, PipelineOption, ReasonOption, RunArgument

NO_REASON = "no reason was given"


def status(run: RunArgument = None, json: Json = False) -> None:
    """One screen: what is published, what failed and why, and the command to type next."""
    from orchestration.cli.status import status as command

    command(run, as_json=json)


def replay(
    run: NamedRun,
    stage: Annotated[
        str | None,
        typer.Option("--stage", help="Default: the one that failed or was held, else validate."),
    ] = None,
    reason: ReasonOption = NO_REASON,
    json: Json = False,
) -> None:
    """Do one stage of a run again, and then what depends on it."""
    from orchestration.cli.replay import replay as command

    command(run, stage_name=stage, reason=reason, as_json=json)


def cancel(
    run: NamedRun,
    reason: ReasonOption = NO_REASON,
    wait: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait until it has stopped.")
    ] = 20.0,
    json: Json = False,
) -> None:
    """Stop a run; what it finished is kept, and it can be resumed."""
    from orchestration.cli.cancel import cancel as command

    command(run, reason=reason, wait_s=wait, as_json=json)


def recover(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs, change nothing.")
    ] = False,
    max_recoveries: Annotated[
        int, typer.Option(min=1, help="Give a run up after so many workers died on it.")
    ] = 5,
    json: Json = False,
) -> None:
    """Resume the runs whose worker died, the oldest first."""
    from orchestration.cli.recover import recover as command

    command(dry_run=dry_run, limit=max_recoveries, as_json=json)


def metrics(
    output_format: Annotated[
        str, typer.Option("--format", help="text or prometheus (0.0.4).")
    ] = "text",
    pipeline: PipelineOption = None,
    json: Json = False,
) -> None:
    """Duration, throughput, retries, failures, freshness and lag, measured from rows."""
    from orchestration.cli.metrics import metrics as command

    command(output_format=output_format, pipeline=pipeline, as_json=json)


def report(
    run: RunArgument = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="The file; default: below SLUICE_HOME.")
    ] = None,
    json: Json = False,
) -> None:
    """Write one HTML page about a run: outcome, changes, expectations, quarantine, decisions."""
    from orchestration.cli.report import write_report

    write_report(run, output=output, as_json=json)


def docs(
    output: Annotated[
        Path | None, typer.Option("--output", help="The file; default: below SLUICE_HOME.")
    ] = None,
    json: Json = False,
) -> None:
    """Write dbt's documentation as one HTML page: models, columns, owners, exposures, lineage."""
    from orchestration.cli.docs import write_docs

    write_docs(output=output, as_json=json)


OPERATOR_COMMANDS = (status, replay, cancel, recover, metrics, report, docs)

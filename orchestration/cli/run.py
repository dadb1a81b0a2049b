"""`sluice run`: accept the request, drive the run, print one object last."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import typer

from ingestion.partitions import day_windows
from orchestration.cli.output import print_facts, print_json, print_rows, say
from orchestration.cli.progress import choose_progress
from orchestration.cli.session import (
    prepare_analyst,
    prepare_logs,
    read_settings,
    start_services,
)
from orchestration.code import read_code
from orchestration.model import Outcome
from orchestration.pipelines.files import get_pipeline
from orchestration.pipelines.spec import PipelineSpec
from orchestration.runs.summary import RunSummary
from orchestration.settings import Settings
from orchestration.triggers.plan import preview
from orchestration.triggers.request import RunRequest
from orchestration.triggers.schedule import last_closed_day, scheduled_request
from orchestration.triggers.start import run_request
from orchestration.warehouse.connections import Warehouse

# So many partitions are named on a line, more are counted.
_FEW = 3


def run(
    *,
    pipeline_name: str,
    partitions: str | None,
    due: bool,
    refresh: bool,
    publish: bool,
    as_of: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    settings = read_settings()
    pipeline = get_pipeline(settings.pipelines_dir, pipeline_name)
    moment = parse_moment(as_of)
    if due:
        if partitions is not None or refresh:
            raise typer.BadParameter(
                "takes its days from the schedule; leave out --partitions and --refresh",
                param_hint="--due",
            )
        request = scheduled_request(pipeline, moment or datetime.now(UTC), publish=publish)
    else:
        days = parse_days(partitions)
        refuse_open_days(pipeline, days, moment or datetime.now(UTC))
        request = RunRequest(
            pipeline=pipeline.name,
            days=days,
            refresh=refresh,
            publish=publish,
            as_of=moment,
        )
    prepare_logs(settings)
    warehouse = start_services(settings, say)
    if dry_run:
        code = read_code(settings.project_dir, pipeline)
        with choose_progress() as progress:
            tell = partial(progress.update, "plan")
            plan = preview(settings, warehouse, request, pipeline, code, tell).as_json()
        print_json(plan) if as_json else _print_plan(plan)
        return
    summary = drive(settings, warehouse, request)
    if as_json:
        print_json(summary.as_json())
    else:
        print_summary(summary)
    raise SystemExit(summary.exit_code)


def drive(settings: Settings, warehouse: Warehouse, request: RunRequest) -> RunSummary:
    """Accepts the request and brings its run to an outcome."""
    with choose_progress() as progress:
        summary = run_request(settings, warehouse, request, progress)
    if summary.ended.outcome in {Outcome.PUBLISHED, Outcome.DEGRADED}:
        prepare_analyst(settings, warehouse)
    return summary


def print_summary(summary: RunSummary) -> None:
    answer = summary.as_json()
    print_rows(
        f"run {answer['run_id']}",
        ["stage", "status", "attempts", "duration_s", "output_ref"],
        answer["stages"],
        "no stage ran",
    )
    print_facts(
        {
            "outcome": answer["outcome"],
            "version": answer["version"],
            "partitions": ", ".join(
                f"{count} {name}" for name, count in answer["partitions"].items()
            ),
            "records": ", ".join(f"{count} {name}" for name, count in answer["records"].items()),
            "duration": f"{answer['duration_s']:.1f} s",
        }
    )
    for news in answer["corrections"]:
        say(f"{news['record']}: {news['message']}")
    for rebuilt in answer["rebuilt"]:
        say(
            f"{rebuilt['model']}: {rebuilt['partitions']} of {rebuilt['of']} partitions were built again, "
            f"because {', '.join(rebuilt['because'])} changed"
        )
    if failure := answer["failure"]:
        say(f"{failure['kind']} failure in {failure['stage']}: {failure['message']}")


def _print_plan(plan: dict[str, Any]) -> None:
    partitions, models = plan.pop("partitions"), plan.pop("models")
    print_facts(plan)
    print_rows("partitions", ["partition", "action"], partitions, "nothing to do")
    later = ", before anything is fetched" if plan["fetch"] else ""
    print_rows(
        f"models{later}",
        ["model", "action", "new", "there", "merged", "because"],
        [_outlook_row(model) for model in models],
        "no model",
    )


def _outlook_row(model: dict[str, Any]) -> dict[str, Any]:
    """One line of the plan; `new` names the partitions to be built, or counts many."""
    named = model["partitions"]
    new = None if named is None else " ".join(named) if len(named) <= _FEW else f"{len(named)} days"
    return {
        "model": model["model"],
        "action": model["action"],
        "new": new,
        "there": model["reused_partitions"],
        "merged": model["merged_segments"] or None,
        "because": ", ".join(model["because"]),
    }


def parse_days(partitions: str | None) -> list[str]:
    if partitions is None:
        raise typer.BadParameter(
            "say which days, for example 2013-01-01..2013-01-31, or what is due: --due",
            param_hint="--partitions",
        )
    try:
        return day_windows(partitions)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--partitions") from None


def refuse_open_days(pipeline: PipelineSpec, days: list[str], moment: datetime) -> None:
    """A day that has not ended would be taken for complete, with whatever is there by now."""
    last = last_closed_day(pipeline, moment).isoformat()
    if days[-1] > last:
        zone = pipeline.schedule.time_zone if pipeline.schedule else "UTC"
        raise typer.BadParameter(
            f"{days[-1]} has not ended yet in {zone}; ask for days up to {last}, or name a later moment "
            "with --as-of",
            param_hint="--partitions",
        )


def parse_moment(text: str | None) -> datetime | None:
    """What `--as-of` says. Raises typer's error for what is no time."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time; write it like 2013-03-01T06:00:00+00:00", param_hint="--as-of"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

"""`sluice dispatch`: one round, and, without a workflow platform, the runs that it brought."""

from dataclasses import asdict
from typing import Any

from orchestration.cli.output import print_json, print_rows, say
from orchestration.cli.recover import worst
from orchestration.cli.session import prepare_logs, read_settings, start_services
from orchestration.errors import SluiceError
from orchestration.identity import RunId
from orchestration.notifications.routes import read_alerts
from orchestration.pipelines.files import load_pipelines
from orchestration.runs.messages import deliver_left_over, failure_of
from orchestration.runs.state import get_run
from orchestration.settings import Settings
from orchestration.triggers.dispatch import Round, look_ahead
from orchestration.triggers.dispatch import dispatch as run_round
from orchestration.triggers.start import drive_known_run, under_this_code
from orchestration.triggers.starters import choose_starter
from orchestration.warehouse.connections import Role, Warehouse


def dispatch(*, flush: bool, dry_run: bool, as_json: bool) -> None:
    settings = read_settings()
    prepare_logs(settings)
    warehouse = start_services(settings, say)
    pipelines = load_pipelines(settings.pipelines_dir)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        if dry_run:
            _print_outlook([asdict(item) for item in look_ahead(connection, pipelines)], as_json)
            return
        done = run_round(settings, connection, pipelines, choose_starter(settings), flush=flush)
    answers = [_execute(settings, warehouse, run_id) for run_id in done.here]
    deliver_left_over(warehouse, read_alerts(settings))
    if as_json:
        print_json(done.as_json() | {"runs": [answer for answer, _ in answers]})
    else:
        _print(done, [answer for answer, _ in answers])
    raise SystemExit(worst([code for _, code in answers]))


def _execute(settings: Settings, warehouse: Warehouse, run_id: RunId) -> tuple[dict[str, Any], int]:
    from orchestration.cli.progress import choose_progress

    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        run = get_run(connection, run_id)
    try:
        current = under_this_code(settings, warehouse, run)
        with choose_progress() as progress:
            summary = drive_known_run(settings, warehouse, current, progress)
    except SluiceError as error:
        answer = {
            "run_id": run_id, "pipeline": run.pipeline, "outcome": "failed",
            "failure": failure_of(error, None), "version": None,
        }  # fmt: skip
        return answer, error.exit_code
    return summary.as_json(), summary.exit_code


def _print(done: Round, answers: list[dict[str, Any]]) -> None:
    print_rows(
        "accepted",
        ["run_id", "pipeline", "messages", "partitions"],
        [asdict(item) for item in done.taken],
        "no message was due",
    )
    print_rows(
        "handed over",
        ["run_id", "reference"],
        [asdict(item) for item in done.started],
        "no run waited",
    )
    for item in done.waiting:
        say(f"{item.run_id} was not started, and will be tried again: {item.error}")
    if answers:
        print_rows("runs", ["run_id", "pipeline", "outcome", "version"], answers, "")


def _print_outlook(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    print_rows("next runs", ["pipeline", "messages", "partitions", "due"], rows, "no message waits")

"""`sluice recover`: resumes, one after the other, the runs that nobody drives any more."""

from collections.abc import Sequence
from typing import Any

from orchestration.cli.output import print_json, print_rows, say
from orchestration.cli.progress import choose_progress
from orchestration.cli.session import (
    prepare_analyst,
    prepare_logs,
    read_settings,
    start_services,
)
from orchestration.errors import EXIT_BUSY, EXIT_CODES, FailureKind, SluiceError
from orchestration.model import Outcome
from orchestration.notifications.routes import read_alerts
from orchestration.runs.messages import deliver_left_over, failure_of
from orchestration.runs.recovery import Decision, Interrupted, begin_recovery, find_interrupted
from orchestration.runs.state import get_run
from orchestration.runs.summary import failed_summary
from orchestration.settings import Settings
from orchestration.triggers.start import drive_known_run, under_this_code
from orchestration.warehouse.connections import Role, Warehouse

# The worst last: what only needs a repeat, what needs a person, what needs the makers of Sluice.
_FROM_BAD_TO_WORSE = [
    0,
    EXIT_BUSY,
    *(
        EXIT_CODES[kind]
        for kind in (
            FailureKind.QUALITY,
            FailureKind.SOURCE,
            FailureKind.TRANSFORM,
            FailureKind.DESTINATION,
            FailureKind.CONFIGURATION,
            FailureKind.INTERNAL,
        )
    ),
]


def recover(*, dry_run: bool, limit: int, as_json: bool) -> None:
    settings = read_settings()
    prepare_logs(settings)
    warehouse = start_services(settings, say)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        found = find_interrupted(connection)
    if dry_run:
        _print_found(found, as_json=as_json)
        return
    answers, codes = [], list[int]()
    for item in found:
        try:
            answer, code = _recover_one(settings, warehouse, item, limit)
        except SluiceError as error:
            answer, code = _failed(item, error), error.exit_code
        if answer is not None:
            answers.append(answer)
            codes.append(code)
    deliver_left_over(warehouse, read_alerts(settings))
    if as_json:
        print_json(answers)
    else:
        _print_answers(answers)
    raise SystemExit(worst(codes))


def worst(codes: Sequence[int]) -> int:
    """The exit code that says most; 0 for none."""
    return max([0, *codes], key=_FROM_BAD_TO_WORSE.index)


def _recover_one(
    settings: Settings, warehouse: Warehouse, item: Interrupted, limit: int
) -> tuple[dict[str, Any] | None, int]:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        decision = begin_recovery(connection, item.run_id, limit=limit)
        run = get_run(connection, item.run_id)
    match decision:
        case Decision.LEAVE:
            say(f"run {run.run_id} is being worked on again; it is left alone")
            return None, 0
        case Decision.CANCEL:
            say(f"run {run.run_id} was to be stopped, and now it is")
            return None, 0
        case Decision.GIVE_UP:
            answer = failed_summary(run.run_id, run.pipeline, run.failure)
            return answer, EXIT_CODES[FailureKind.INTERNAL]
        case Decision.RESUME:
            pass
    current = under_this_code(settings, warehouse, run)
    if current.run_id != run.run_id:
        say(f"the code changed since run {run.run_id}; it goes on as run {current.run_id}")
    with choose_progress() as progress:
        summary = drive_known_run(settings, warehouse, current, progress)
    if summary.ended.outcome in {Outcome.PUBLISHED, Outcome.DEGRADED}:
        prepare_analyst(settings, warehouse)
    return summary.as_json(), summary.exit_code


def _failed(item: Interrupted, error: SluiceError) -> dict[str, Any]:
    return failed_summary(item.run_id, item.pipeline, failure_of(error, None))


def _print_found(found: list[Interrupted], *, as_json: bool) -> None:
    rows = [
        {
            "run_id": item.run_id,
            "pipeline": item.pipeline,
            "trigger": item.trigger,
            "stage": item.stage,
            "accepted_at": item.accepted_at,
            "recoveries": item.recoveries,
            "cancel_requested": item.cancel_requested,
        }
        for item in found
    ]
    if as_json:
        print_json(rows)
        return
    columns = ["run_id", "pipeline", "trigger", "stage", "accepted_at", "recoveries"]
    print_rows("interrupted runs", columns, rows, "no run is interrupted")


def _print_answers(answers: list[dict[str, Any]]) -> None:
    rows = [
        answer | {"failure": answer["failure"] and answer["failure"]["message"]}
        for answer in answers
    ]
    columns = ["run_id", "pipeline", "outcome", "version", "duration_s", "failure"]
    print_rows("recovered runs", columns, rows, "no run was interrupted")

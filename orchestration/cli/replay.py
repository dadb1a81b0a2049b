"""`sluice replay`: does a stage of a run again, then what depends on it, and prints what came of it."""

from dataclasses import replace

import psycopg

from orchestration.cli.output import print_json, say
from orchestration.cli.progress import choose_progress
from orchestration.cli.run import print_summary
from orchestration.cli.session import (
    operator_name,
    prepare_analyst,
    prepare_logs,
    read_settings,
    start_services,
)
from orchestration.model import Outcome, StageName
from orchestration.runs.replay import choose_stage, parse_stage, prepare_replay
from orchestration.runs.state import resolve_run
from orchestration.triggers.start import drive_known_run, under_this_code
from orchestration.warehouse.connections import Role


def replay(prefix: str, *, stage_name: str | None, reason: str, as_json: bool) -> None:
    settings = read_settings()
    named = parse_stage(stage_name) if stage_name else None
    prepare_logs(settings)
    warehouse = start_services(settings, say)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        run = resolve_run(connection, prefix)
        stage = named or choose_stage(connection, run)
    current = under_this_code(settings, warehouse, run)
    if current.run_id != run.run_id:
        say(f"the code changed since run {run.run_id}; it is replayed as run {current.run_id}")
    if stage is StageName.EXTRACT:
        say(
            "what was loaded is never overwritten: extract does again only what is missing or no "
            "longer intact; to fetch everything again: sluice run ... --refresh"
        )
    actor = operator_name(settings, warehouse)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        done_again = prepare_replay(connection, current, stage, reason=reason, actor=actor)
        before = _last_publication(connection, current.pipeline)
    say(f"replaying {stage}: {done_again.invalidated} finished units are done again")
    with choose_progress() as progress:
        summary = drive_known_run(settings, warehouse, current, progress)
    if summary.ended.outcome in {Outcome.PUBLISHED, Outcome.DEGRADED}:
        prepare_analyst(settings, warehouse)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        nothing_new = _last_publication(connection, current.pipeline) == before
    if summary.ended.outcome is Outcome.PUBLISHED and nothing_new:
        # The run published it when it first ran; readers see now what they saw before the replay.
        summary = replace(summary, ended=replace(summary.ended, outcome=Outcome.UNCHANGED))
    if as_json:
        print_json(summary.as_json())
    else:
        print_summary(summary)
    raise SystemExit(summary.exit_code)


def _last_publication(connection: psycopg.Connection, pipeline: str) -> int | None:
    row = connection.execute(
        "select max(publication_id) from ops.publications where pipeline = %s", [pipeline]
    ).fetchone()
    return row[0] if row else None

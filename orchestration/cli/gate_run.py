"""`sluice gates run`: one suite on one version, looked at and not written down."""

import typer

from expectations.verdict import Verdict, VerdictStatus
from ingestion.partitions import day_windows
from orchestration.cli.gates import print_failed
from orchestration.cli.output import print_facts, print_json
from orchestration.cli.progress import choose_progress
from orchestration.cli.reading import reading
from orchestration.cli.run import parse_moment
from orchestration.cli.session import open_warehouse, prepare_logs, read_settings
from orchestration.errors import EXIT_CODES, FailureKind
from orchestration.model import StageName
from orchestration.pipelines.files import get_pipeline
from orchestration.publication.versions import resolve_version
from orchestration.stages.one_suite import OneSuite, evaluate_one, find_suite, moment_of


def run(
    suite: str,
    *,
    version: str | None,
    pipeline_name: str | None,
    partitions: str | None,
    as_of: str | None,
    as_json: bool,
) -> None:
    settings = read_settings()
    prepare_logs(settings)
    warehouse = open_warehouse(settings)
    windows = _windows(partitions)
    with reading() as connection:
        found = resolve_version(connection, version, pipeline_name)
        moment = parse_moment(as_of) or moment_of(connection, found)
    pipeline = get_pipeline(settings.pipelines_dir, found.pipeline)
    name = find_suite(pipeline, suite)
    wanted = OneSuite(name, found, moment, windows)
    with choose_progress() as progress:
        progress.update(StageName.GATE, f"evaluating {name} on {found.version_id}")
        verdict = evaluate_one(warehouse, pipeline, settings.suites_dir, wanted)
    if as_json:
        print_json({"suite": name, "version": found.version_id, "verdict": verdict.to_dict()})
    else:
        _print(wanted, verdict)
    if verdict.status is VerdictStatus.FAILED:
        raise SystemExit(EXIT_CODES[FailureKind.QUALITY])


def _windows(partitions: str | None) -> tuple[str, ...] | None:
    if partitions is None:
        return None
    try:
        return tuple(day_windows(partitions))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--partitions") from None


def _print(wanted: OneSuite, verdict: Verdict) -> None:
    found = verdict.statistics
    print_facts(
        {
            "suite": wanted.name,
            "version": wanted.version.version_id,
            "verdict": f"{verdict.status}; nothing of it is recorded",
            "as_of": wanted.as_of,
            "expectations": found["expectations"],
            "left_out": found["unchanged"] or None,
            "seconds": verdict.duration_s,
        }
    )
    print_failed([(wanted.name, verdict.to_dict())])

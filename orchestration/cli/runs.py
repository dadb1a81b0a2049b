"""`sluice runs list|show`."""

from orchestration.cli.output import print_facts, print_json, print_rows
from orchestration.cli.reading import reading
from orchestration.runs.description import describe_run, newest_runs


def list_runs(*, pipeline: str | None, outcome: str | None, limit: int, as_json: bool) -> None:
    with reading() as connection:
        rows = newest_runs(connection, pipeline=pipeline, outcome=outcome, limit=limit)
    if as_json:
        print_json(rows)
        return
    columns = [
        "run_id",
        "pipeline",
        "trigger_kind",
        "trigger_key",
        "status",
        "outcome",
        "duration_s",
        "accepted_at",
    ]
    print_rows("runs", columns, rows, "there is no run yet; start one with: sluice run --help")


def show_run(prefix: str | None, *, as_json: bool) -> None:
    with reading() as connection:
        facts = describe_run(connection, prefix)
    if as_json:
        print_json(facts)
        return
    stages, attempts, partitions, findings = (
        facts.pop("stages"),
        facts.pop("attempts"),
        facts.pop("partitions"),
        facts.pop("findings"),
    )
    print_facts(facts)
    print_rows(
        "stages",
        ["stage", "status", "attempts", "duration_s", "input_ref", "output_ref"],
        stages,
        "no stage ran yet",
    )
    print_rows(
        "partitions",
        ["resource", "state", "partitions", "fetched", "loaded", "quarantined"],
        partitions,
        "no partition",
    )
    print_rows(
        "findings",
        ["resource", "acceptance", "partitions", "first", "reason"],
        findings,
        "nothing was found wrong with a partition",
    )
    print_rows(
        "failed attempts",
        ["stage", "source_partition", "attempt", "status", "error_code", "error_message"],
        attempts,
        "no attempt failed",
    )

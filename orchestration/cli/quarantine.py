"""`sluice quarantine list`: records and partitions that broke a rule, who decides, how long they wait."""

from typing import Any

import psycopg

from orchestration.cli.output import print_json, print_rows, say
from orchestration.cli.reading import reading
from orchestration.cli.session import read_settings
from orchestration.errors import ConfigurationError, InternalError
from orchestration.pipelines.files import get_pipeline
from orchestration.pipelines.spec import PipelineSpec
from orchestration.runs.state import resolve_run
from orchestration.settings import Settings
from orchestration.sql.rows import rows_of
from orchestration.warehouse.connections import Role

STATES = ("held", "superseded", "retried", "discarded", "released")
_COUNTS = ("fetched", "loaded", "quarantined", "held", "retried", "discarded", "released")


def list_entries(
    *,
    run: str | None,
    resource: str | None,
    rule: str | None,
    decision: str | None,
    pipeline: str | None,
    limit: int,
    as_json: bool,
) -> None:
    if decision is not None and decision not in STATES:
        raise ConfigurationError(
            f"{decision!r} is no decision; use one of: {', '.join(STATES)}", code="unknown_decision"
        )
    narrowed = {"resource": resource, "rule": rule, "state": decision, "pipeline": pipeline}
    with reading(Role.REVIEWER) as connection:
        parameters = narrowed | {"run": _run_id(connection, run), "limit": limit}
        rows = rows_of(connection, "quarantine_list", parameters)
    people = Reviewers(read_settings())
    rows = [row | people.of(row["pipeline"], row["resource"]) for row in rows]
    if as_json:
        print_json(rows)
        return
    shown = [row | {"decision": row["state"], "age": age(row["age_s"])} for row in rows]
    anything = any(word is not None for word in (run, *narrowed.values()))
    print_rows(
        "quarantine",
        ["id", "partition", "rule", "error", "decision", "age", "owner", "source_ref"],
        shown,
        "nothing in quarantine fits" if anything else "nothing is in quarantine",
    )


def summarize(
    *, run: str | None, resource: str | None, pipeline: str | None, as_json: bool
) -> None:
    """Counts of what was fetched and where it is. Raises `InternalError` if they do not agree."""
    with reading(Role.REVIEWER) as connection:
        narrowed = {"run": _run_id(connection, run), "resource": resource, "pipeline": pipeline}
        rows = rows_of(connection, "quarantine_summary", narrowed)
    if as_json:
        print_json([row | {"reconciles": row["unreconciled"] == 0} for row in rows])
    else:
        columns = ["pipeline", "resource", "partitions", *_COUNTS, "reconciles"]
        shown = [row | {"reconciles": row["unreconciled"] == 0} for row in rows]
        print_rows("fetched = loaded + quarantined", columns, shown, "nothing was fetched yet")
        say("quarantined = held + retried + discarded + released")
    if wrong := [row for row in rows if row["unreconciled"]]:
        raise InternalError(
            f"{wrong[0]['unreconciled']} partitions of {wrong[0]['resource']} do not reconcile; report "
            "it, with the output of: sluice quarantine list --summary --json",
            code="counts_differ",
        )


class Reviewers:
    """Who answers for a resource and who decides, as the pipeline files say."""

    def __init__(self, settings: Settings) -> None:
        self._directory = settings.pipelines_dir
        self._pipelines: dict[str, PipelineSpec | None] = {}

    def of(self, pipeline: str, resource: str | None) -> dict[str, str | None]:
        """`owner` of the resource and `reviewer` of the pipeline; None where no file says it."""
        if pipeline not in self._pipelines:
            self._pipelines[pipeline] = self._read(pipeline)
        spec = self._pipelines[pipeline]
        if spec is None:
            return {"owner": None, "reviewer": None}
        known = resource if resource in spec.resource_names else None
        return {
            "owner": spec.owner_of(resource=known).email,
            "reviewer": spec.reviewer.email,
        }

    def _read(self, pipeline: str) -> PipelineSpec | None:
        try:
            return get_pipeline(self._directory, pipeline)
        except ConfigurationError:
            # A file that is gone or broken is `sluice check`'s to report, and hides no entry.
            return None


def age(seconds: int) -> str:
    """How long something waits, in the largest unit that is full."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{max(seconds, 0)} s"


def _run_id(connection: psycopg.Connection, run: str | None) -> Any:
    return resolve_run(connection, run).run_id if run else None

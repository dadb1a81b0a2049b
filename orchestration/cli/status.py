"""`sluice status`: what is published, what a run came to and why, who owns it, what to type next."""

from typing import Any

import psycopg

from orchestration.cli.output import print_facts, print_json, print_rows
from orchestration.cli.reading import fetch, reading
from orchestration.errors import ConfigurationError
from orchestration.model import Run
from orchestration.runs.state import resolve_run


def status(prefix: str | None, *, as_json: bool) -> None:
    with reading() as connection:
        published = fetch(
            connection,
            "select p.pipeline, p.version_id as version, b.published_at, b.kind "
            "from ops.publication_pointer p join ops.publications b using (publication_id) order by 1",
        )
        try:
            run = describe(connection, resolve_run(connection, prefix))
        except ConfigurationError:
            if prefix is not None:
                raise
            run = None
    if as_json:
        print_json({"published": published, "run": run})
        return
    print_rows(
        "published",
        ["pipeline", "version", "published_at", "kind"],
        published,
        "nothing is published yet",
    )
    if run is None:
        print_facts({"next": "sluice demo"})
        return
    print_facts(run)


def describe(connection: psycopg.Connection, run: Run) -> dict[str, Any]:
    """One screen about one run."""
    stages = fetch(
        connection,
        "select s.stage, s.status, s.input_ref, s.output_ref, s.idempotency_key "
        "from ops.run_stages s where s.run_id = %s order by s.position desc",
        [run.run_id],
    )
    alive = fetch(
        connection,
        "select 1 from ops.leases where name = 'run/' || %s and expires_at > clock_timestamp()",
        [run.run_id],
    )
    interrupted = run.status in {"accepted", "running"} and not alive
    facts: dict[str, Any] = {
        "run": run.run_id,
        "pipeline": run.pipeline,
        "request": f"{run.trigger_kind} {run.trigger_key}",
        "status": "interrupted" if interrupted else run.status,
        "outcome": run.outcome,
        "version": run.version_id,
    }
    worked_on = next(
        (item for item in stages if item["status"] in {"failed", "held", "running"}), None
    )
    if run.failure:
        owner = fetch(
            connection,
            "select owner from ops.outbox where run_id = %s and kind = %s order by outbox_id desc limit 1",
            [run.run_id, run.outcome],
        )
        facts |= {
            "failed_stage": run.failure["stage"],
            "failure": f"{run.failure['kind']} ({run.failure['error_code']})",
            "transient": run.failure["transient"],
            "message": run.failure["message"],
            "owner": owner[0]["owner"] if owner else None,
        }
    if worked_on and (run.failure or interrupted):
        facts |= {
            "input": worked_on["input_ref"],
            "checkpoint": worked_on["idempotency_key"],
            "output_exists": worked_on["output_ref"] is not None,
        }
    facts["next"] = next_command(run, interrupted=interrupted)
    return facts


def next_command(run: Run, *, interrupted: bool) -> str:
    """The command that brings the run to publication, or says more about it."""
    again = request_command(run)
    if interrupted:
        return again
    match run.failure and run.failure["kind"]:
        case "quality" if run.failure and run.failure["stage"] == "gate":
            return f"sluice gates show {run.run_id}"
        case "quality":
            return f"sluice quarantine list --run {run.run_id}"
        case "configuration":
            return "sluice check"
        case None:
            return f"sluice runs show {run.run_id}"
        case _:
            return again


def request_command(run: Run) -> str:
    """The command line of the same request."""
    days = run.request.get("days")
    parts = ["sluice run", f"--pipeline {run.pipeline}"]
    if days:
        span = days["first"] if days["count"] == 1 else f"{days['first']}..{days['last']}"
        parts.append(f"--partitions {span}")
    if run.request.get("refresh"):
        parts.append("--refresh")
    if not run.request.get("publish", True):
        parts.append("--no-publish")
    return " ".join(parts)

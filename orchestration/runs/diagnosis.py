"""Where a run stands, what stopped it, and the command that brings it to publication.

Read from rows alone, so that it is true on any machine and after any death.
"""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

import psycopg

from orchestration.errors import FailureKind
from orchestration.model import Cause, Outcome, Run, StageName, TriggerKind
from orchestration.runs.recovery import is_driven
from orchestration.sql.rows import rows_of

_NAMED_UNITS = 3


class Standing(StrEnum):
    """`status` of a run as an operator sees it: with what its lease and its requests tell."""

    RUNNING = "running"
    CANCELLING = "cancelling"
    INTERRUPTED = "interrupted"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


@dataclass(frozen=True)
class Advice:
    """`next` ends in a publication once the cause is gone; `look` says more about the cause."""

    next: str
    look: str | None = None


def diagnose(connection: psycopg.Connection, run: Run) -> dict[str, Any]:
    """One screen about one run."""
    [about] = rows_of(connection, "status_run", [run.run_id])
    standing = _standing(run, about)
    is_well = standing is Standing.FINISHED and run.failure is None
    advice = advise(run, standing, about["superseded_by"])
    facts: dict[str, Any] = {
        "run": run.run_id,
        "pipeline": run.pipeline,
        "request": f"{run.trigger_kind} {run.trigger_key}",
        "status": standing,
        "outcome": run.outcome,
        "version": run.version_id,
    }
    if not is_well:
        facts |= {"owner": about["owner"], "cause": about["cause"]}
        facts |= _failure(run, about["stage"]) | _units(connection, run, about["stage"])
    facts |= _policies(connection, run)
    if standing is Standing.RUNNING or about["recoveries"]:
        facts |= {"worker": _worker(about["holder"]), "recoveries": about["recoveries"]}
    if about["cancel_requested_at"] and not is_well:
        facts["cancel_requested"] = (
            f"{about['cancel_requested_at']:%Y-%m-%d %H:%M:%S} by {about['cancel_requested_by']}: "
            f"{about['cancel_reason']}"
        )
    if about["superseded_by"]:
        facts["superseded_by"] = about["superseded_by"]
    if advice.look:
        facts["look"] = advice.look
    return facts | {"next": advice.next}


def advise(run: Run, standing: Standing, superseded_by: str | None) -> Advice:
    """What to type, by how the run stands and what stopped it."""
    show = f"sluice runs show {run.run_id}"
    again = same_request(run)
    match standing:
        case Standing.RUNNING:
            return Advice(f"sluice status {run.run_id}")
        case Standing.CANCELLING:
            return Advice(f"sluice cancel {run.run_id}")
        case Standing.SUPERSEDED:
            return Advice(f"sluice status {superseded_by}")
        case Standing.INTERRUPTED | Standing.CANCELLED:
            return Advice(again, show)
        case Standing.FINISHED | Standing.FAILED:
            return _by_kind(run, again, show)


def same_request(run: Run) -> str:
    """The command that asks for the same again; the request itself where it can be typed."""
    days = _days(run)
    if run.trigger_kind is not TriggerKind.MANUAL or run.request.get("fetch_snapshots") or not days:
        return f"sluice replay {run.run_id}"
    options = [
        *(["--refresh"] if run.request.get("refresh") else []),
        *([] if run.publish else ["--no-publish"]),
    ]
    return " ".join([f"sluice run --pipeline {run.pipeline} --partitions {days}", *options])


def _by_kind(run: Run, again: str, show: str) -> Advice:
    if run.failure is None:
        if run.outcome is Outcome.DEGRADED:
            return Advice(refreshed_request(run), f"sluice quarantine list --run {run.run_id}")
        return Advice(show)
    at_gate = run.failure["stage"] in {StageName.GATE, StageName.PUBLISH}
    match FailureKind(run.failure["kind"]):
        case FailureKind.QUALITY if at_gate:
            return Advice(
                f"sluice replay {run.run_id} --stage gate", f"sluice gates show {run.run_id}"
            )
        case FailureKind.QUALITY:
            return Advice(refreshed_request(run), f"sluice quarantine list --run {run.run_id}")
        case FailureKind.CONFIGURATION:
            return Advice(again, "sluice check")
        case _:
            return Advice(again, show)


def refreshed_request(run: Run) -> str:
    """Fetches again what a source has corrected; one that is under way is joined."""
    days = _days(run)
    if not days:
        return f"sluice replay {run.run_id}"
    return f"sluice run --pipeline {run.pipeline} --partitions {days} --refresh"


def _days(run: Run) -> str | None:
    """`A..B`; None for none, or for days with gaps, which cannot be typed."""
    days = run.request.get("days")
    if not days:
        return None
    first, last = days["first"], days["last"]
    span = (date.fromisoformat(last) - date.fromisoformat(first)).days + 1
    if span != days["count"]:
        return None
    return str(first) if span == 1 else f"{first}..{last}"


def _standing(run: Run, about: dict[str, Any]) -> Standing:
    if about["cause"] == Cause.SUPERSEDED:
        return Standing.SUPERSEDED
    if run.status not in {"accepted", "running"}:
        return Standing(run.status)
    if about["cancel_requested_at"]:
        return Standing.CANCELLING
    driven = is_driven(about["holder"], alive=about["lease_is_alive"])
    return Standing.RUNNING if driven else Standing.INTERRUPTED


def _failure(run: Run, stage: str | None) -> dict[str, Any]:
    if run.failure is None:
        return {"stage": stage}
    return {
        "failed_stage": run.failure["stage"],
        "failure": f"{run.failure['kind']} ({run.failure['error_code']})",
        "transient": run.failure["transient"],
        "message": run.failure["message"],
    }


def _policies(connection: psycopg.Connection, run: Run) -> dict[str, Any]:
    """What its pipeline says of the suites that failed, and what was left out for that."""
    if run.outcome not in (Outcome.HELD, Outcome.DEGRADED, Outcome.PUBLISHED):
        return {}
    [found] = rows_of(connection, "status_policies", [run.run_id, run.run_id])
    return {name: value for name, value in found.items() if value}


def _units(connection: psycopg.Connection, run: Run, stage: str | None) -> dict[str, Any]:
    """What the stage was given, its checkpoint, and what it left; of several units the open ones."""
    units = rows_of(connection, "status_units", {"run_id": run.run_id, "stage": stage})
    if not units:
        return {"input": None, "checkpoint": None, "output_exists": False, "output": None}
    concerned = [unit for unit in units if unit["is_open"]] or units
    first = concerned[0]
    named = ", ".join(str(unit["input_ref"]) for unit in concerned[:_NAMED_UNITS])
    more = len(concerned) - _NAMED_UNITS
    return {
        "input": f"{named} and {more} more" if more > 0 else named,
        "checkpoint": first["idempotency_key"],
        "checkpoint_status": f"{first['status']}, attempt {first['attempt']}",
        "units": f"{len(units) - len(concerned)} of {len(units)} done"
        if len(units) > len(concerned)
        else f"{len(units)}",
        "output_exists": first["output"] is not None,
        "output": first["output"],
    }


def _worker(holder: str | None) -> str | None:
    if not holder:
        return None
    machine, pid, _ = holder.split("|")
    return f"{machine.split()[0]}, process {pid}"

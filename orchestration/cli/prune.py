"""`sluice prune`: drops what the pipelines' retention policies no longer keep, or says what would go."""

from typing import Any

from orchestration.cli.output import print_facts, print_json, print_rows, say
from orchestration.cli.progress import choose_progress
from orchestration.cli.session import (
    open_warehouse,
    operator_name,
    prepare_logs,
    read_settings,
)
from orchestration.errors import EXIT_BUSY
from orchestration.pipelines.files import chosen_pipelines
from orchestration.publication.retention.report import Pruned, would_prune
from orchestration.runs.home_folder import tidy_home
from orchestration.runs.prune import Prune, WholePlan, plan_prune

_SHOWN = 20


def prune(*, pipeline: str | None, dry_run: bool, as_json: bool) -> None:
    """Only what a pipeline file declares is pruned: without a file there is no policy."""
    settings = read_settings()
    specs = chosen_pipelines(settings.pipelines_dir, pipeline)
    policies = {spec.name: spec.retention for spec in specs}
    log_days = max(policy.log_days for policy in policies.values())
    warehouse = open_warehouse(settings)
    plan = plan_prune(warehouse, policies)
    if dry_run:
        answer = would_prune(plan.pipelines, plan.store)
    else:
        prepare_logs(settings)
        with choose_progress() as progress:
            actor = operator_name(settings, warehouse)
            answer = Prune(warehouse, policies, progress, actor=actor).run()
    answer.logs = tidy_home(settings.home_dir, log_days=log_days, dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, "kept": _kept(plan)} | answer.as_json())
    else:
        _print(plan, answer, dry_run=dry_run)
    if answer.busy:
        say(
            f"{', '.join(answer.busy)} was kept by runs for too long, so not everything was looked at; "
            "run the same command again once they have finished"
        )
    raise SystemExit(EXIT_BUSY if answer.busy else 0)


def _kept(plan: WholePlan) -> list[dict[str, Any]]:
    return [
        {"version_id": version, "pipeline": item.pipeline, "because": reason}
        for item in plan.pipelines
        for version, reason in item.kept.items()
    ]


def _print(plan: WholePlan, answer: Pruned, *, dry_run: bool) -> None:
    print_rows(
        "versions that are kept",
        ["version_id", "pipeline", "because"],
        _kept(plan),
        "no version is kept",
    )
    goes = "would go" if dry_run else "went"
    _print_some(f"versions that {goes}", ["version_id", "state", "created_at"], answer.versions)
    _print_some(f"relations that {goes}", ["relation", "kind", "size"], answer.relations)
    _print_some(
        f"artifacts that {goes}", ["artifact_id", "partition", "rows", "size"], answer.artifacts
    )
    if answer.left:
        rows = [{"what": item.what, "why": item.why} for item in answer.left]
        print_rows("left until the next prune", ["what", "why"], rows, "")
    print_facts(
        {
            goes: _summary(answer),
            "space": _size(answer.counts["bytes"]),
        }
    )


def _print_some(title: str, columns: list[str], rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    more = f" (the first {_SHOWN} of {len(rows)})" if len(rows) > _SHOWN else ""
    shown = [row | {"size": _size(row.get("bytes", 0))} for row in rows[:_SHOWN]]
    print_rows(title + more, columns, shown, "")


def _summary(answer: Pruned) -> str:
    counts = {
        "versions": len(answer.versions),
        "schemas": len(answer.schemas),
        "relations": len(answer.relations),
        "manifests": len(answer.manifests),
        "artifacts": len(answer.artifacts),
        "staged rows": answer.counts["rows"],
        "runs": len(answer.runs),
        "checkpoints": answer.counts["checkpoints"],
        "quarantined records erased": answer.counts["quarantine"],
        "log files": len(answer.logs),
    }
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing"


def _size(count: int) -> str:
    size, units = float(count), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.{0 if units[0] == 'bytes' else 1}f} {units[0]}"

"""`sluice publish`: makes a version that passed its gates the one that readers see."""

from pathlib import Path

import typer

from orchestration.cli.output import print_facts, print_json, say
from orchestration.cli.session import (
    open_warehouse,
    operator_name,
    prepare_analyst,
    prepare_logs,
    read_settings,
)
from orchestration.code import find_main_branch, read_code
from orchestration.notifications.routes import read_alerts
from orchestration.pipelines.files import get_pipeline
from orchestration.pipelines.spec import PipelineSpec
from orchestration.pipelines.stages import OnLongReader
from orchestration.publication.candidates import BuiltBy, Origin, builders_of, publish_candidate
from orchestration.publication.grace import Patience
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.versions import resolve_version
from orchestration.runs.messages import deliver_left_over
from orchestration.runs.operating import hold_build_lease
from orchestration.warehouse.connections import Role


def publish(
    prefix: str,
    *,
    allow_unmerged: bool,
    reason: str | None,
    pipeline: str | None,
    as_json: bool,
) -> None:
    if allow_unmerged and not (reason or "").strip():
        raise typer.BadParameter(
            "needs a reason, which is kept for ever: --reason '…'", param_hint="--allow-unmerged"
        )
    settings = read_settings()
    prepare_logs(settings)
    warehouse = open_warehouse(settings)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        version = resolve_version(connection, prefix, pipeline)
        builders = builders_of(connection, version.version_id)
    spec = get_pipeline(settings.pipelines_dir, version.pipeline)
    policy = spec.stages.publish
    origin = _find_origin(settings.project_dir, spec, builders)
    with hold_build_lease(
        warehouse,
        version.pipeline,
        on_wait=lambda _: say("a run builds for this pipeline; waiting for it"),
    ) as lease:
        publication = publish_candidate(
            warehouse,
            version.version_id,
            origin,
            lease=lease,
            owner=spec.owner.email,
            actor=operator_name(settings, warehouse),
            reason=(reason or "").strip() or None,
            overrule=allow_unmerged,
            patience=Patience(
                wait_s=policy.grace_seconds,
                end_readers=policy.on_long_reader is OnLongReader.TERMINATE,
            ),
            allowed=Allowed(spec.shape_changes),
        )
    deliver_left_over(warehouse, read_alerts(settings))
    prepare_analyst(settings, warehouse)
    answer = {
        "outcome": publication.outcome,
        "pipeline": version.pipeline,
        "version": publication.version_id,
        "previous": publication.previous,
        "publication_id": publication.publication_id,
        "commit": origin.commit,
        "merged_into": origin.branch,
    }
    print_json(answer) if as_json else print_facts(answer)


def _find_origin(project_dir: Path, spec: PipelineSpec, builders: list[BuiltBy]) -> Origin:
    """A merged commit that the version was built from, or that says the same; else where it came from.

    Code is known by its content: what was built before it was committed is in main once main says so.
    """
    for built in builders:
        branch = find_main_branch(project_dir, built.commit) if built.dirty is False else None
        if branch is not None:
            return Origin(built.commit, built.dirty, branch)
    here = read_code(project_dir, spec)
    if here.dirty is False and here.code_id in {built.code_id for built in builders}:
        branch = find_main_branch(project_dir, here.commit)
        if branch is not None:
            return Origin(here.commit, here.dirty, branch)
    return Origin(builders[0].commit, builders[0].dirty)

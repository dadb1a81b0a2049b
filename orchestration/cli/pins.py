"""`sluice pin` and `sluice unpin`: a version that is kept and read for long, and that may go again."""

from orchestration.cli.output import print_facts, print_json, say
from orchestration.cli.session import open_warehouse, operator_name, read_settings
from orchestration.publication.pins import pin_version, unpin_version
from orchestration.publication.versions import Version, resolve_version
from orchestration.runs.operating import hold_build_lease
from orchestration.warehouse.connections import Role, Warehouse


def pin(prefix: str, *, reason: str, pipeline: str | None, as_json: bool) -> None:
    settings = read_settings()
    warehouse = open_warehouse(settings)
    actor = operator_name(settings, warehouse)
    version = _resolve(warehouse, prefix, pipeline)
    with hold_build_lease(warehouse, version.pipeline, on_wait=_say_waiting) as lease:
        done = pin_version(warehouse, version, reason=reason, actor=actor, lease=lease)
    answer = {
        "version": version.version_id,
        "outcome": "pinned" if done.changed else "unchanged",
        "schema": version.version_id,
    }
    print_json(answer) if as_json else print_facts(answer)


def unpin(prefix: str, *, reason: str, pipeline: str | None, as_json: bool) -> None:
    settings = read_settings()
    warehouse = open_warehouse(settings)
    actor = operator_name(settings, warehouse)
    version = _resolve(warehouse, prefix, pipeline)
    with hold_build_lease(warehouse, version.pipeline, on_wait=_say_waiting) as lease:
        done = unpin_version(warehouse, version, reason=reason, actor=actor, lease=lease)
    answer = {
        "version": version.version_id,
        "outcome": "unpinned" if done.changed else "unchanged",
        "schema": version.version_id if done.left else None,
        "left": done.left,
    }
    print_json(answer) if as_json else print_facts(answer)


def _resolve(warehouse: Warehouse, prefix: str, pipeline: str | None) -> Version:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        return resolve_version(connection, prefix, pipeline)


def _say_waiting(_: str) -> None:
    say("a run builds for this pipeline; waiting for it")

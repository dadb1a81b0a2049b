"""Hand-made rows that retention decides on, and what of the warehouse it may change."""

from typing import Any

import psycopg
from late_work import Silence
from psycopg.types.json import Jsonb

from orchestration.pipelines.spec import Retention
from orchestration.publication.retention.report import Pruned
from orchestration.runs.prune import Prune
from orchestration.warehouse.connections import Warehouse


def prune(warehouse: Warehouse, **policy: int) -> Pruned:
    """Prunes pipeline flights; without another policy only what is published stays."""
    values = {"previous_versions": 0, "candidate_days": 0, "run_days": 1, "quarantine_days": 0}
    return Prune(warehouse, {"flights": Retention(**{**values, **policy})}, Silence()).run()


def store_objects(warehouse: Warehouse) -> set[str]:
    rows = ask(
        warehouse,
        "select relname from pg_class where relnamespace = 'store'::regnamespace "
        "and relkind in ('r', 'v')",
    )
    return {name for (name,) in rows}


def ask(warehouse: Warehouse, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with warehouse.connect(autocommit=True) as owner:
        return owner.execute(statement.encode(), values).fetchall()


def change(warehouse: Warehouse, statement: str, *values: Any) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(statement.encode(), values)


def relations_of(warehouse: Warehouse, version: str) -> set[str]:
    rows = ask(
        warehouse, "select relation_name from ops.version_models where version_id = %s", version
    )
    return {name for (name,) in rows}


def add_run(
    owner: psycopg.Connection,
    run: str,
    *,
    status: str = "finished",
    days_ago: float = 30,
    partitions: tuple[str, ...] = (),
    version: str | None = None,
) -> None:
    """A run of pipeline flights that ended so many days ago; `partitions` are `resource/window@N`."""
    ended = status in {"finished", "failed", "cancelled"}
    outcome = {"finished": "unchanged", "failed": "failed", "cancelled": "failed"}.get(status)
    cause = {"failed": "permanent_error", "cancelled": "cancelled"}.get(status)
    owner.execute(
        "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, as_of, "
        "correlation_id, workflow_id, status, outcome, failure, cause, version_id, accepted_at, "
        "finished_at) values (%s, 'flights', 'manual', %s, 'c', '{}', now(), 'c', 'w', %s, %s, %s, "
        "%s, %s, now() - make_interval(secs => %s), "
        "case when %s then now() - make_interval(secs => %s) end)",
        [
            *(
                run,
                run,
                status,
                outcome,
                Jsonb({}) if outcome == "failed" else None,
                cause,
                version,
            ),
            *(days_ago * 86_400, ended, days_ago * 86_400),
        ],
    )
    for partition in partitions:
        resource, _, rest = partition.partition("/")
        window, _, revision = rest.partition("@")
        owner.execute(
            "insert into ops.run_partitions (run_id, resource, window_name, revision, artifact_id) "
            "select %s, %s, %s, %s, (select artifact_id from ops.artifacts where partition = %s)",
            [run, resource, window, int(revision), partition],
        )


def stage_rows(warehouse: Warehouse) -> None:
    """Two rows of weather in staging for every artifact that there is."""
    change(
        warehouse,
        "insert into staging.flights__weather (origin, _artifact_id, _partition, _run_id, _source_ref) "
        "select 'EWR', artifact_id, partition, run_id, i::text from ops.artifacts, "
        "generate_series(1, 2) i",
    )


def staged(warehouse: Warehouse) -> set[str]:
    rows = ask(warehouse, "select distinct _artifact_id from staging.flights__weather")
    return {name for (name,) in rows}

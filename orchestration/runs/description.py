"""What is kept about runs, as JSON: the newest ones, and all about one."""

from typing import Any

import psycopg

from orchestration.runs.state import resolve_run
from orchestration.sql.rows import fetch


def newest_runs(
    connection: psycopg.Connection,
    *,
    pipeline: str | None = None,
    outcome: str | None = None,
    limit: int = 20,
) -> list[dict[str, Any]]:
    """The newest runs, of one pipeline or with one outcome if asked for."""
    return fetch(
        connection,
        "select run_id, pipeline, trigger_kind, trigger_key, status, outcome, version_id, "
        "accepted_at, finished_at, "
        "round(extract(epoch from finished_at - started_at)::numeric, 1) as duration_s "
        "from ops.runs where (%s::text is null or pipeline = %s) "
        "and (%s::text is null or outcome = %s) order by accepted_at desc limit %s",
        [pipeline, pipeline, outcome, outcome, limit],
    )


def describe_run(connection: psycopg.Connection, prefix: str | None) -> dict[str, Any]:
    """Everything that is kept about a run, as JSON."""
    run = resolve_run(connection, prefix)
    return {
        "run_id": run.run_id,
        "pipeline": run.pipeline,
        "trigger": f"{run.trigger_kind} {run.trigger_key}",
        "status": run.status,
        "outcome": run.outcome,
        "failure": run.failure,
        "version": run.version_id,
        "request": run.request,
        "as_of": run.as_of,
        "code_id": run.code_id,
        "commit": run.code_commit,
        "dirty": run.code_dirty,
        "correlation_id": run.correlation_id,
        "workflow_id": run.workflow_id,
        "stages": fetch(
            connection,
            "select stage, status, attempts, input_ref, output_ref, "
            "round(extract(epoch from coalesce(finished_at, now()) - started_at)::numeric, 2) "
            "as duration_s from ops.run_stages where run_id = %s order by position",
            [run.run_id],
        ),
        "partitions": fetch(
            connection,
            "select p.resource, p.state, count(*) as partitions, sum(a.fetched)::bigint as fetched, "
            "sum(a.loaded)::bigint as loaded, sum(a.quarantined)::bigint as quarantined "
            "from ops.run_partitions p left join ops.artifacts a using (artifact_id) "
            "where p.run_id = %s group by 1, 2 order by 1, 2",
            [run.run_id],
        ),
        "findings": fetch(
            connection,
            "select a.resource, a.acceptance, a.acceptance_reason as reason, "
            "count(*) as partitions, min(a.partition) as first "
            "from ops.run_partitions p join ops.artifacts a using (artifact_id) "
            "where p.run_id = %s and a.acceptance_reason is not null "
            "group by 1, 2, 3 order by 1, 2, 3",
            [run.run_id],
        ),
        "attempts": fetch(
            connection,
            "select c.stage, c.source_partition, a.attempt, a.status, a.error_code, a.error_message "
            "from ops.attempts a join ops.checkpoints c using (idempotency_key) "
            "where a.run_id = %s and a.status in ('failed', 'lost') order by a.started_at",
            [run.run_id],
        ),
    }

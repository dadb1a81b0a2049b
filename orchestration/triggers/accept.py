"""The only door: it inserts the run that a request is, or finds it.

The same request of the same code is the same run. Which revision of each partition a run asks for is
decided here, once, and kept; a request made again after an edit asks for the same revisions.
"""

from dataclasses import dataclass
from datetime import date

import psycopg
from psycopg.types.json import Jsonb

from ingestion.partitions import SNAPSHOT
from ingestion.sources import get_resource
from orchestration.code import Code
from orchestration.identity import RunId, digest, run_id
from orchestration.model import Run
from orchestration.pipelines.spec import PipelineSpec
from orchestration.runs.state import get_run
from orchestration.triggers.request import RunRequest

Window = tuple[str, str]


@dataclass(frozen=True)
class Accepted:
    """The run, and whether this call made it."""

    run: Run
    is_new: bool


def accept(
    connection: psycopg.Connection, request: RunRequest, pipeline: PipelineSpec, code: Code
) -> Accepted:
    """Inserts the run or finds it, in one transaction of its own; the runner's connection."""
    with connection.transaction():
        # Two requests at once must not both pick the next revision.
        connection.execute(
            "select pg_advisory_xact_lock(hashtextextended('accept/' || %s, 0))", [pipeline.name]
        )
        key = trigger_key(connection, request)
        identity = run_id(pipeline.name, request.trigger_kind, key, code.code_id)
        is_new = _insert_run(connection, identity, key, request, code, pipeline.owner.email)
        if is_new:
            plan = plan_revisions(connection, request, pipeline, key)
            for (resource, window), revision in sorted(plan.items()):
                connection.execute(
                    "insert into ops.run_partitions (run_id, resource, window_name, revision) "
                    "values (%s, %s, %s, %s)",
                    [identity, resource, window, revision],
                )
    return Accepted(get_run(connection, identity), is_new)


def trigger_key(connection: psycopg.Connection, request: RunRequest) -> str:
    """The key that makes two requests one.

    A manual request is named by its days and options. A refresh is numbered, and joins the last one
    of the same days until that has finished, so that a killed refresh resumes instead of starting
    over.
    """
    if request.trigger_key is not None:
        return request.trigger_key
    days = sorted(set(request.days))
    text = f"{days[0]}..{days[-1]}" if days else SNAPSHOT
    if len(days) > 1 and not _is_contiguous(days):
        text += "+" + digest(days)[:8]
    if request.fetch_snapshots:
        text += "+snapshots"
    if not request.publish:
        text += "+no-publish"
    if request.refresh:
        text += "+refresh"
        # By the number and not by how many there are: old runs are forgotten.
        finished = connection.execute(
            "select coalesce(max(substr(trigger_key, length(%s) + 2)::integer), 0) from ops.runs "
            "where pipeline = %s and trigger_kind = %s and starts_with(trigger_key, %s) "
            "and substr(trigger_key, length(%s) + 1) ~ '^-[0-9]{1,9}$' and status = 'finished'",
            [text, request.pipeline, request.trigger_kind, text, text],
        ).fetchone()
        text += f"-{(finished[0] if finished else 0) + 1}"
    return text


def plan_revisions(
    connection: psycopg.Connection, request: RunRequest, pipeline: PipelineSpec, key: str
) -> dict[Window, int]:
    """(resource, window) → the revision that the request asks for."""
    kept = connection.execute(
        "select p.resource, p.window_name, p.revision from ops.run_partitions p "
        "join ops.runs r using (run_id) where r.pipeline = %s and r.trigger_kind = %s "
        "and r.trigger_key = %s",
        [pipeline.name, request.trigger_kind, key],
    ).fetchall()
    earlier = {(resource, window): revision for resource, window, revision in kept}
    if request.revisions:
        return {(item.resource, item.window): item.revision for item in request.revisions}
    loaded, asked = _known_revisions(connection, pipeline.name)
    plan: dict[Window, int] = {}
    for at, anew in _wanted(request, pipeline).items():
        if at in earlier:
            plan[at] = earlier[at]
            continue
        latest = asked.get(at, 0)
        plan[at] = latest + 1 if anew else loaded.get(at) or latest or 1
    return plan


def _wanted(request: RunRequest, pipeline: PipelineSpec) -> dict[Window, bool]:
    """Each window that is asked for, and whether it is fetched anew."""
    wanted: dict[Window, bool] = {}
    for resource in pipeline.resource_names:
        if get_resource(resource).contract.window_kind == SNAPSHOT:
            wanted[resource, SNAPSHOT] = request.refresh or request.fetch_snapshots
        else:
            wanted |= {(resource, day): request.refresh for day in sorted(set(request.days))}
    return wanted | dict(request.windows)


def _known_revisions(
    connection: psycopg.Connection, pipeline: str
) -> tuple[dict[Window, int], dict[Window, int]]:
    """The revision of each window that counts of those that are loaded; the latest one of all."""
    loaded = connection.execute(
        "select distinct on (resource, window_name) resource, window_name, revision "
        "from ops.artifacts where pipeline = %s and state = 'adopted' "
        # A retry that is not acceptable keeps nothing of what the source said out of use.
        "and not (origin_id is not null and acceptance = 'rejected') "
        "order by resource, window_name, source_revision desc, revision desc",
        [pipeline],
    ).fetchall()
    asked = connection.execute(
        "select resource, window_name, max(revision) from ("
        "select p.resource, p.window_name, p.revision from ops.run_partitions p "
        "join ops.runs r using (run_id) where r.pipeline = %s union all "
        "select resource, window_name, revision from quarantine.retries where pipeline = %s union all "
        "select resource, window_name, revision from ops.artifacts "
        "where pipeline = %s and state = 'adopted') a group by 1, 2",
        [pipeline, pipeline, pipeline],
    ).fetchall()
    return (
        {(resource, window): revision for resource, window, revision in loaded},
        {(resource, window): revision for resource, window, revision in asked},
    )


def _insert_run(
    connection: psycopg.Connection,
    identity: RunId,
    key: str,
    request: RunRequest,
    code: Code,
    owner: str,
) -> bool:
    inserted = connection.execute(
        "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, code_commit, "
        "code_dirty, request, publish, as_of, correlation_id, workflow_id, owner) "
        "values (%s, %s, %s, %s, %s, %s, %s, %s, %s, coalesce(%s, now()), %s, %s, %s) "
        "on conflict do nothing returning run_id",
        [
            identity,
            request.pipeline,
            request.trigger_kind,
            key,
            code.code_id,
            code.commit,
            code.dirty,
            Jsonb(request.as_json()),
            request.publish,
            request.as_of,
            request.correlation_id or identity,
            request.workflow_id or "local",
            owner,
        ],
    ).fetchone()
    return inserted is not None


def _is_contiguous(days: list[str]) -> bool:
    first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
    return (last - first).days + 1 == len(days)

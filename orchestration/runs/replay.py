"""Doing a stage of a run again under the same keys, and then what depends on it.

Finished checkpoints are invalidated, never deleted: their attempts stay as history. What is immutable
(artifacts, relations, publications) is looked at again and kept where it still holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from orchestration.errors import Busy, ConfigurationError
from orchestration.model import Run, StageName
from orchestration.runs.leases import release, try_acquire
from orchestration.runs.state import record_action
from orchestration.sql.queries import query
from orchestration.warehouse.fence import assert_fence, run_lease

_STAGES = list(StageName)


@dataclass(frozen=True)
class Replay:
    """What was made to be done again: from which stage on, and how many finished units."""

    stage: StageName
    invalidated: int


def choose_stage(connection: psycopg.Connection, run: Run) -> StageName:
    """The stage that failed, was held or was interrupted; else everything from `validate` on."""
    if run.failure and run.failure["stage"]:
        return StageName(run.failure["stage"])
    if run.status != "finished":
        row = connection.execute(
            "select stage from ops.run_stages where run_id = %s and status in ('running', 'failed') "
            "order by started_at desc limit 1",
            [run.run_id],
        ).fetchone()
        if row:
            return StageName(row[0])
    return StageName.VALIDATE


def parse_stage(name: str) -> StageName:
    """Raises `ConfigurationError` for a stage that does not exist."""
    try:
        return StageName(name)
    except ValueError:
        raise ConfigurationError(
            f"{name!r} is not a stage; use one of: {', '.join(StageName)}", code="unknown_stage"
        ) from None


def prepare_replay(
    connection: psycopg.Connection,
    run: Run,
    stage: StageName | None,
    *,
    reason: str,
    actor: str | None = None,
) -> Replay:
    """Invalidates what the stage and the later ones of the run finished, and accepts the run anew.

    A publication is a fact, and a rollback a decision: `publish` itself is done again only when it
    is the named stage, or when the last publication of the pipeline was no rollback. Needs the
    runner's connection in autocommit. Raises `Busy` while somebody drives the run.
    """
    lease = try_acquire(connection, run_lease(run.run_id))
    if lease is None:
        raise Busy(
            f"run {run.run_id} is being worked on; wait until it has finished, or stop it with: "
            f"sluice cancel {run.run_id}"
        )
    try:
        start = stage or choose_stage(connection, run)
        again = list(_STAGES[_STAGES.index(start) :])
        if start is not StageName.PUBLISH and _was_rolled_back(connection, run.pipeline):
            again = [item for item in again if item is not StageName.PUBLISH]
        with connection.transaction():
            assert_fence(connection, lease)
            invalidated = _invalidate(connection, run, again)
            connection.execute(query("runs_accept_again"), [run.run_id])
            record_action(connection, "replay", f"{run.run_id}/{start}", reason, actor)
    finally:
        release(connection, lease)
    return Replay(start, invalidated)


def _invalidate(connection: psycopg.Connection, run: Run, stages: Sequence[StageName]) -> int:
    return connection.execute(
        query("checkpoints_invalidate"), {"run_id": run.run_id, "stages": list(stages)}
    ).rowcount


def _was_rolled_back(connection: psycopg.Connection, pipeline: str) -> bool:
    row = connection.execute(
        "select kind = 'rollback' from ops.publications where pipeline = %s "
        "order by publication_id desc limit 1",
        [pipeline],
    ).fetchone()
    return bool(row and row[0])

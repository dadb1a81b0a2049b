"""Versions as rows and, while one is a candidate, as a schema of views that its gate can read.

Recording is idempotent: the id says everything, so what is there already is right.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from orchestration.errors import InternalError, TransformFailure
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role
from orchestration.warehouse.dbt.graph import PARTITION_COLUMN
from orchestration.warehouse.dbt.state import DbtState
from orchestration.warehouse.fence import Lease, assert_fence
from orchestration.warehouse.names import identifier, qualified
from orchestration.warehouse.partitions import is_partitioned
from orchestration.warehouse.segments.places import STORE_SCHEMA
from orchestration.warehouse.states import record_state

_READERS = (Role.GATE, Role.RUNNER, Role.ANALYST, Role.REVIEWER)


@dataclass(frozen=True)
class VersionRecord:
    """A row of ops.versions, as a candidate."""

    version_id: str
    pipeline: str
    manifest_id: str
    run_id: str
    code_id: str
    code_commit: str | None = None
    code_dirty: bool | None = None
    degraded: bool = False


@dataclass(frozen=True)
class VersionModel:
    """A row of ops.version_models. `parents` are models, `resources` those it reads itself."""

    model: str
    relation_name: str
    content_key: str
    published: bool
    parents: tuple[str, ...]
    resources: tuple[str, ...]


def record_version(
    connection: psycopg.Connection,
    version: VersionRecord,
    models: Iterable[VersionModel],
    lease: Lease,
    dbt_state: DbtState | None = None,
) -> bool:
    """Writes the version as a candidate; False when it was there already, in whatever state.

    `dbt_state` is noted either way. One transaction; the transformer's connection. Raises
    `LeaseLost`, or `TransformFailure` (transient) when retention dropped a relation that was to be
    reused.
    """
    with _nothing_dropped(), connection.transaction():
        assert_fence(connection, lease)
        inserted = connection.execute(
            query("store_record_version"),
            {
                "version_id": version.version_id,
                "pipeline": version.pipeline,
                "manifest_id": version.manifest_id,
                "run_id": version.run_id,
                "code_id": version.code_id,
                "code_commit": version.code_commit,
                "code_dirty": version.code_dirty,
                "degraded": version.degraded,
            },
        ).fetchone()
        for model in models if inserted else ():
            connection.execute(
                "insert into ops.version_models (version_id, model, relation_name, content_key, "
                "published, parents, resources) values (%s, %s, %s, %s, %s, %s, %s)",
                [
                    *(version.version_id, model.model, model.relation_name, model.content_key),
                    *(model.published, list(model.parents), list(model.resources)),
                ],
            )
        if dbt_state is not None:
            record_state(connection, version.version_id, dbt_state)
    return inserted is not None


@contextmanager
def _nothing_dropped() -> Iterator[None]:
    try:
        yield
    except psycopg.errors.ForeignKeyViolation:
        raise TransformFailure(
            "something that this version reuses was dropped a moment ago; run the same command "
            "again, it builds what is missing",
            code="reused_dropped",
            transient=True,
        ) from None


def create_version_views(
    connection: psycopg.Connection, version_id: str, models: Mapping[str, str], lease: Lease
) -> None:
    """Makes schema `version_id` with one view for each model, which the gate may read.

    `models` maps model → adopted relation. One transaction; the transformer's connection. Whoever
    reads a view that reaches schema live sets `sluice.manifest` to the version's own. Raises
    `LeaseLost`.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute("select ops.create_version_schema(%s)", [version_id])
        for model, relation in sorted(models.items()):
            view = qualified(version_id, model)
            columns = _columns_to_judge(connection, relation)
            connection.execute(
                sql.SQL("create or replace view {} as select {} from {}").format(
                    view,
                    sql.SQL(", ").join(sql.Identifier(name) for name in columns),
                    qualified(STORE_SCHEMA, relation),
                )
            )
            connection.execute(
                sql.SQL("grant select on {} to {}").format(
                    view, sql.SQL(", ").join(identifier(role) for role in _READERS)
                )
            )


def _columns_to_judge(connection: psycopg.Connection, relation: str) -> list[str]:
    row = connection.execute(
        "select columns from ops.relations where relation_name = %s and state = 'adopted'",
        [relation],
    ).fetchone()
    if row is None:
        raise InternalError(f"{relation} was never adopted; build the version again")
    columns = [column["name"] for column in row[0]]
    return [*columns, PARTITION_COLUMN] if is_partitioned(connection, relation) else columns

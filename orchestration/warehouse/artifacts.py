"""Artifacts: the rows that one attempt loaded for one partition, invisible until they are adopted.

loading → adopted | abandoned, by compare-and-set under the fence of the partition's lease. Adoption
verifies count and checksum in the database, in the same transaction.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg.rows import args_row

from ingestion.artifacts import (
    Measured,
    copy_artifact_rows,
    delete_artifact_rows,
    measure_artifacts,
    replace_artifact_rows,
)
from ingestion.partitions import Partition
from ingestion.resources import Resource
from ingestion.sources import get_resource
from ingestion.spool import Fetched
from orchestration.errors import DestinationFailure
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import ArtifactId
from orchestration.sql.queries import query
from orchestration.warehouse.fence import Lease, assert_fence

# In the order of the fields.
_COLUMNS = (
    "artifact_id, pipeline, resource, window_name, revision, partition, run_id, state, fetched, "
    "loaded, quarantined, checksum, schema_version, unexpected_fields, fetched_at, acceptance, "
    "acceptance_reason"
)


@dataclass(frozen=True)
class Artifact:
    """A row of ops.artifacts."""

    artifact_id: ArtifactId
    pipeline: str
    resource: str
    window_name: str
    revision: int
    partition: str
    run_id: str
    state: str
    fetched: int | None
    loaded: int | None
    quarantined: int | None
    checksum: str | None
    schema_version: str | None
    unexpected_fields: list[str]
    fetched_at: datetime | None
    acceptance: str
    acceptance_reason: str | None


def find_artifacts(
    connection: psycopg.Connection, artifact_ids: Iterable[str]
) -> dict[str, Artifact]:
    """The artifacts with these ids, by id."""
    found = _select(connection, "where artifact_id = any(%s)", [list(artifact_ids)])
    return {artifact.artifact_id: artifact for artifact in found}


def find_adopted(
    connection: psycopg.Connection, pipeline: str, partitions: Iterable[str]
) -> dict[str, Artifact]:
    """The adopted artifact of each of these partitions, by partition."""
    found = _select(
        connection,
        "where pipeline = %s and partition = any(%s) and state = 'adopted'",
        [pipeline, list(partitions)],
    )
    return {artifact.partition: artifact for artifact in found}


def intact_artifacts(
    connection: psycopg.Connection, artifacts: Iterable[Artifact]
) -> set[ArtifactId]:
    """Those whose rows are still what was adopted, by count and content checksum."""
    by_resource: dict[str, list[Artifact]] = {}
    for artifact in artifacts:
        by_resource.setdefault(artifact.resource, []).append(artifact)
    intact: set[ArtifactId] = set()
    for name, group in by_resource.items():
        measured = measure_artifacts(
            connection, get_resource(name), [artifact.artifact_id for artifact in group]
        )
        intact.update(
            artifact.artifact_id
            for artifact in group
            if measured[artifact.artifact_id]
            == Measured(artifact.loaded or 0, artifact.checksum or "")
        )
    return intact


def register_loading(
    connection: psycopg.Connection,
    pipeline: str,
    run_id: str,
    items: Iterable[tuple[ArtifactId, Partition, Lease]],
) -> None:
    """Announces what is about to be loaded. One transaction; the extractor's connection.

    A partition that is a retry names the artifact that it came from.
    """
    with connection.transaction():
        for artifact_id, partition, lease in items:
            assert_fence(connection, lease)
            connection.execute(
                query("artifacts_register"),
                [
                    artifact_id,
                    pipeline,
                    partition.resource,
                    partition.window,
                    partition.revision,
                    str(partition),
                    run_id,
                    lease.name,
                    lease.fence,
                ],
            )


def adopt_artifact(
    connection: psycopg.Connection,
    artifact_id: ArtifactId,
    resource: Resource,
    fetched: Fetched,
    lease: Lease,
    *,
    keep_rejected: Callable[[], int],
) -> tuple[ArtifactId, str]:
    """Verifies what was loaded and makes it the partition's artifact; returns its id and checksum.

    `keep_rejected` puts the rejected records into quarantine inside the same transaction and
    returns how many there are. An adopted artifact of the partition whose rows were damaged since
    gets them back and stays. Raises `LeaseLost`, or `DestinationFailure` when rows are missing.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        measured = measure_artifacts(connection, resource, [artifact_id])[artifact_id]
        if damaged := _adopted_before(connection, artifact_id):
            if Measured(damaged.loaded or 0, damaged.checksum or "") != measured:
                raise DestinationFailure(
                    f"{fetched.partition}: the rows in staging are not what was adopted, and the "
                    "source has other content now; run the same command with --refresh",
                    code="artifact_damaged",
                )
            replace_artifact_rows(
                connection,
                resource,
                damaged.artifact_id,
                artifact_id,
                partition=damaged.partition,
            )
            return damaged.artifact_id, measured.checksum
        quarantined = keep_rejected()
        if measured.rows != fetched.accepted or quarantined != fetched.rejected:
            raise DestinationFailure(
                f"{fetched.partition}: {fetched.accepted} records were to be loaded and "
                f"{fetched.rejected} kept in quarantine, but the warehouse has {measured.rows} and "
                f"{quarantined}; nothing of it is used. Run the same command again",
                code="load_incomplete",
                transient=True,
            )
        changed = connection.execute(
            "update ops.artifacts set state = 'adopted', fetched = %s, loaded = %s, "
            "quarantined = %s, checksum = %s, schema_version = %s, unexpected_fields = %s, "
            "fetched_at = %s, adopted_at = clock_timestamp() "
            "where artifact_id = %s and state = 'loading' and fence = %s",
            [
                fetched.fetched,
                measured.rows,
                quarantined,
                measured.checksum,
                fetched.schema_version,
                list(fetched.unexpected_fields),
                fetched.fetched_at,
                artifact_id,
                lease.fence,
            ],
        ).rowcount
        reach(FaultPoint.EXTRACT_INSIDE_ADOPTION)
        if changed != 1:
            raise DestinationFailure(
                f"{fetched.partition}: the loaded rows were given up by another process before they "
                "could be adopted; run the same command again",
                code="artifact_abandoned",
                transient=True,
            )
        _heal_earlier_revisions(connection, resource, artifact_id, measured)
    return artifact_id, measured.checksum


def _adopted_before(connection: psycopg.Connection, artifact_id: ArtifactId) -> Artifact | None:
    new = find_artifacts(connection, [artifact_id])[artifact_id]
    return find_adopted(connection, new.pipeline, [new.partition]).get(new.partition)


def _heal_earlier_revisions(
    connection: psycopg.Connection, resource: Resource, artifact_id: ArtifactId, measured: Measured
) -> None:
    """Gives earlier revisions of the same content back what they lost since they were adopted.

    Equal content is one manifest, and that names the revision which was accepted first.
    """
    new = find_artifacts(connection, [artifact_id])[artifact_id]
    earlier = _select(
        connection,
        "where pipeline = %s and resource = %s and window_name = %s and revision < %s "
        "and acceptance = 'accepted' and state = 'adopted' and checksum = %s",
        [new.pipeline, new.resource, new.window_name, new.revision, measured.checksum],
    )
    intact = intact_artifacts(connection, earlier)
    for artifact in earlier:
        if artifact.artifact_id not in intact:
            copy_artifact_rows(
                connection,
                resource,
                artifact.artifact_id,
                artifact_id,
                partition=artifact.partition,
            )


_DEAD = """
update ops.artifacts a set state = 'abandoned'
where a.pipeline = %s and a.state = 'loading'
  and not exists (
      select from ops.leases l
      where l.name = a.lease_name and l.fence = a.fence and l.expires_at > clock_timestamp()
  )
"""


def sweep_orphans(connection: psycopg.Connection, pipeline: str) -> int:
    """Gives up what dead attempts loaded, then deletes its rows; returns how many rows went.

    Marked abandoned before anything is deleted, so that nobody can adopt it meanwhile. Needs the
    extractor's connection in autocommit.
    """
    with connection.transaction():
        connection.execute(_DEAD, [pipeline])
    rows = connection.execute(
        "select resource, array_agg(artifact_id) from ops.artifacts "
        "where pipeline = %s and state = 'abandoned' "
        # A worker that was only paused may have gone on loading after an earlier sweep.
        "and (loaded is null or created_at > clock_timestamp() - interval '7 days') "
        "group by resource",
        [pipeline],
    ).fetchall()
    deleted = 0
    for resource, artifact_ids in rows:
        with connection.transaction():
            deleted += delete_artifact_rows(connection, get_resource(resource), artifact_ids)
            # Zero rows are left: later sweeps need not look at it again for long.
            connection.execute(
                "update ops.artifacts set loaded = 0 where artifact_id = any(%s)", [artifact_ids]
            )
    return deleted


def accepted_artifacts(connection: psycopg.Connection, pipeline: str) -> list[Artifact]:
    """For every window the accepted revision that counts, published or held: of what the source was
    asked for last, the last one."""
    return _select(
        connection,
        "where pipeline = %s and acceptance = 'accepted' "
        "order by resource, window_name, source_revision desc, revision desc",
        [pipeline],
        distinct="distinct on (resource, window_name)",
    )


def artifacts_of_manifest(connection: psycopg.Connection, manifest: str) -> list[Artifact]:
    """What a manifest names, by id."""
    return _select(
        connection,
        "where artifact_id in (select artifact_id from ops.manifest_artifacts where manifest_id = %s) "
        "order by artifact_id",
        [manifest],
    )


def _select(
    connection: psycopg.Connection,
    which: LiteralString,
    parameters: Sequence[Any],
    distinct: LiteralString = "",
) -> list[Artifact]:
    with connection.cursor(row_factory=args_row(Artifact)) as cursor:
        return cursor.execute(
            f"select {distinct} {_COLUMNS} from ops.artifacts {which}",  # noqa: S608 - literals
            parameters,
        ).fetchall()

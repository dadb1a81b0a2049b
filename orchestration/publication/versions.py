"""Reading what versions there are, which one is published, and what a short id means.

Any role that may read `ops` can call these; nothing here writes.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row

from orchestration.errors import ConfigurationError
from orchestration.identity import ManifestId, RunId, VersionId
from orchestration.sql.queries import query

_CANDIDATES = 10


@dataclass(frozen=True)
class Version:
    """One manifest seen through one set of model keys; times are UTC."""

    version_id: VersionId
    pipeline: str
    manifest_id: ManifestId
    run_id: RunId
    code_id: str
    code_commit: str | None
    code_dirty: bool | None
    degraded: bool
    state: str
    created_at: datetime
    published_at: datetime | None


@dataclass(frozen=True)
class VersionModel:
    """What one model of a version is stored as, and what it was made from."""

    model: str
    relation_name: str
    content_key: str
    published: bool
    parents: tuple[str, ...]
    resources: tuple[str, ...]


@dataclass(frozen=True)
class PublicationRecord:
    """One flip of a pipeline's pointer."""

    publication_id: int
    version_id: VersionId
    previous_version_id: VersionId | None
    kind: str
    slot: str
    run_id: RunId | None
    reason: str | None
    actor: str
    published_at: datetime


def published_version(connection: psycopg.Connection, pipeline: str) -> VersionId | None:
    """The version that readers see, or None before the first publication."""
    row = connection.execute(
        "select version_id from ops.publication_pointer where pipeline = %s", [pipeline]
    ).fetchone()
    return VersionId(row[0]) if row else None


def list_versions(
    connection: psycopg.Connection, pipeline: str | None = None, limit: int = 50
) -> list[Version]:
    """The newest first."""
    return _versions(connection, pipeline=pipeline, prefix="", limit=limit)


def get_version(connection: psycopg.Connection, version_id: VersionId) -> Version:
    """Raises `ConfigurationError` (`version_unknown`, `version_dropped`)."""
    for version in _versions(connection, pipeline=None, prefix=version_id, limit=_CANDIDATES):
        if version.version_id == version_id:
            return version
    refuse_dropped(connection, version_id, None)
    raise _unknown(version_id, None)


def resolve_version(
    connection: psycopg.Connection, prefix: str | None = None, pipeline: str | None = None
) -> Version:
    """The one version whose id begins like this; `v_` may be left out.

    Without a prefix: the published version of the pipeline, or else the newest version. Raises
    `ConfigurationError` (`version_unknown`, `version_dropped`, `version_ambiguous` with the
    candidates).
    """
    if not prefix:
        current = published_version(connection, pipeline) if pipeline else None
        if current:
            return get_version(connection, current)
        newest = list_versions(connection, pipeline, limit=1)
        if not newest:
            raise _unknown("", pipeline)
        return newest[0]
    whole = prefix if prefix.startswith("v_") else f"v_{prefix}"
    found = _versions(connection, pipeline=pipeline, prefix=whole, limit=_CANDIDATES)
    exact = [version for version in found if version.version_id == whole]
    if len(found) == 1 or exact:
        return (exact or found)[0]
    if not found:
        refuse_dropped(connection, whole, pipeline)
        raise _unknown(prefix, pipeline)
    raise ConfigurationError(
        f"{prefix!r} is the beginning of several versions: "
        f"{', '.join(version.version_id for version in found)}; write more of it",
        code="version_ambiguous",
    )


def refuse_dropped(connection: psycopg.Connection, prefix: str, pipeline: str | None) -> None:
    """Raises `ConfigurationError` (`version_dropped`) if retention dropped a version of this name."""
    row = connection.execute(
        query("publication_dropped"), {"prefix": prefix, "pipeline": pipeline}
    ).fetchone()
    if row is None:
        return
    version_id, owner, state, dropped_at = row
    raise ConfigurationError(
        f"version {version_id} of {owner} ({state}) was dropped by retention on "
        f"{dropped_at:%Y-%m-%d %H:%M} UTC, so it can neither be published nor "
        "looked into. What is kept: sluice versions list; to keep more, raise previous_versions or "
        "candidate_days in the pipeline file, or pin a version in time",
        code="version_dropped",
    )


def version_models(connection: psycopg.Connection, version_id: VersionId) -> list[VersionModel]:
    """All models of the version, by name."""
    rows = connection.execute(
        "select model, relation_name, content_key, published, parents, resources "
        "from ops.version_models where version_id = %s order by model",
        [version_id],
    ).fetchall()
    return [
        VersionModel(model, relation, key, published, tuple(parents), tuple(resources))
        for model, relation, key, published, parents, resources in rows
    ]


def list_publications(
    connection: psycopg.Connection, pipeline: str, limit: int = 50
) -> list[PublicationRecord]:
    """The newest first."""
    with connection.cursor(row_factory=class_row(PublicationRecord)) as cursor:
        return cursor.execute(
            query("publication_list"), {"pipeline": pipeline, "limit": limit}
        ).fetchall()


def _versions(connection: psycopg.Connection, **values: Any) -> list[Version]:
    with connection.cursor(row_factory=class_row(Version)) as cursor:
        return cursor.execute(query("publication_versions"), values).fetchall()


def _unknown(prefix: str, pipeline: str | None) -> ConfigurationError:
    of = f" of pipeline {pipeline}" if pipeline else ""
    what = f"no version{of} begins with {prefix!r}" if prefix else f"there is no version{of} yet"
    return ConfigurationError(
        f"{what}; `sluice versions list` shows what there is, `sluice run` makes one",
        code="version_unknown",
    )

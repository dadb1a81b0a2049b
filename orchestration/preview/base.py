"""What a preview starts from: the published version, with the data and the code that made it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg

from orchestration.errors import ConfigurationError
from orchestration.publication.versions import (
    Version,
    VersionModel,
    get_version,
    published_version,
    version_models,
)
from orchestration.sql.queries import query
from orchestration.warehouse.dbt.state import ModelState
from orchestration.warehouse.manifests import Manifest, load_manifest
from orchestration.warehouse.states import read_dbt_manifest, read_model_states


@dataclass(frozen=True)
class RecordedVerdict:
    """What a suite said of the published version; `suite_hash` is what it meant then."""

    status: str
    suite_hash: str


@dataclass(frozen=True)
class Base:
    """A published version. `dbt_manifest` is None if its state was never recorded.

    `as_of` is the moment that its run spoke for, so that freshness is judged alike.
    """

    version: Version
    manifest: Manifest
    as_of: datetime
    models: Mapping[str, VersionModel]
    states: Mapping[str, ModelState] = field(default_factory=dict)
    dbt_manifest: Mapping[str, Any] | None = None
    verdicts: Mapping[str, RecordedVerdict] = field(default_factory=dict)


def read_base(connection: psycopg.Connection, pipeline: str) -> Base:
    """Raises `ConfigurationError` (`nothing_published`). The analyst's connection is enough."""
    published = published_version(connection, pipeline)
    if published is None:
        raise ConfigurationError(
            f"nothing is published by pipeline {pipeline}, so there is nothing to preview against; "
            f"publish a version first: sluice run --pipeline {pipeline} --partitions …",
            code="nothing_published",
        )
    version = get_version(connection, published)
    row = connection.execute(
        "select as_of from ops.runs where run_id = %s", [version.run_id]
    ).fetchone()
    verdicts = connection.execute(
        query("preview_verdicts"), {"version_id": version.version_id}
    ).fetchall()
    return Base(
        version=version,
        manifest=load_manifest(connection, version.manifest_id, pipeline),
        as_of=row[0] if row else version.created_at,
        models={model.model: model for model in version_models(connection, published)},
        states=read_model_states(connection, published),
        dbt_manifest=read_dbt_manifest(connection, published),
        verdicts={suite: RecordedVerdict(*rest) for suite, *rest in verdicts},
    )

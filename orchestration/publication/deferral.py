"""dbt's manifest of what is published, for `--state` and `--defer`: relations where people read them.

The manifest is the one that was kept with the version, so it is that of the published code whatever
is checked out here, and wherever the version was made.
"""

from typing import Any

import psycopg

from orchestration.errors import ConfigurationError
from orchestration.publication.versions import Version
from orchestration.publication.views import DEFERRED_SCHEMA, PUBLISHED_SCHEMA
from orchestration.sql.queries import query
from orchestration.warehouse.dbt.state import with_relations
from orchestration.warehouse.segments.places import STORE_SCHEMA
from orchestration.warehouse.states import read_dbt_manifest


def published_manifest(
    connection: psycopg.Connection, version: Version, database: str
) -> dict[str, Any]:
    """The manifest with every published model of all pipelines at its published view.

    A model that others read by partition is at its view that shows `_partition`; what is not
    published is where it is in the store. Raises `ConfigurationError` (`state_unknown`).
    """
    manifest = read_dbt_manifest(connection, version.version_id)
    if manifest is None:
        raise ConfigurationError(
            f"version {version.version_id} was made without keeping dbt's manifest; make it again: "
            f"sluice replay {version.run_id} --stage transform",
            code="state_unknown",
        )
    relations: dict[str, tuple[str, str]] = {
        node["name"]: (PUBLISHED_SCHEMA, node["name"]) for node in manifest["nodes"].values()
    }
    rows = connection.execute(
        query("deferral_relations"), {"pipeline": version.pipeline}
    ).fetchall()
    for model, relation, published, has_deferred in rows:
        if has_deferred:
            relations[model] = (DEFERRED_SCHEMA, model)
        elif not published:
            relations[model] = (STORE_SCHEMA, relation)
    return with_relations(manifest, relations, database)

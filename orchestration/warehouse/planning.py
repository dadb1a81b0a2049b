"""From a manifest and a project to keys and a build plan; reading only, so also for a dry run."""

import psycopg

from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys, compute_keys
from orchestration.warehouse.dbt.plan import BuildPlan, plan_build
from orchestration.warehouse.dbt.statements import Sources
from orchestration.warehouse.live import live_columns, live_shapes
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.partitions import segments_with
from orchestration.warehouse.store import adopted_relations


def keys_of(
    connection: psycopg.Connection, graph: ProjectGraph, manifest: Manifest
) -> dict[str, ModelKeys]:
    """The keys of all models, as `compute_keys` has them; any role that may read schema live."""
    windows = {
        resource: {name: f"{held.loaded or 0}:{held.checksum}" for name, held in entries.items()}
        for resource, entries in manifest.windows(graph.resources).items()
    }
    return compute_keys(
        graph,
        manifest.checksums(graph.resources),
        live_shapes(connection, graph.resources),
        windows,
    )


def sources_of(connection: psycopg.Connection, graph: ProjectGraph, manifest: Manifest) -> Sources:
    """What the manifest holds of the resources that are loaded by window."""
    windows = manifest.windows(graph.resources)
    return Sources(
        {
            resource: {name: str(held.artifact_id) for name, held in entries.items()}
            for resource, entries in windows.items()
        },
        live_columns(connection, windows),
    )


def plan_now(
    connection: psycopg.Connection,
    graph: ProjectGraph,
    keys: dict[str, ModelKeys],
    attempt: str,
) -> BuildPlan:
    """What the store lacks right now; `attempt` is a token that no other attempt has."""
    return plan_build(
        graph,
        keys,
        attempt,
        lambda wanted: adopted_relations(connection, wanted),
        lambda wanted: segments_with(connection, wanted),
    )

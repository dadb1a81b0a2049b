"""The dbt states of versions, as rows: written with the version, read by whoever compares versions."""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from ingestion.contracts import BOOKKEEPING
from ingestion.fields import Pseudonym
from ingestion.sources import list_sources
from orchestration.sql.queries import query
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys
from orchestration.warehouse.dbt.sensitive import SourceColumns
from orchestration.warehouse.dbt.state import (
    DbtState,
    ModelState,
    describe_state,
    unpack_manifest,
)
from orchestration.warehouse.live import live_shapes


def stored_sources() -> dict[str, SourceColumns]:
    """What the contracts say is stored: resource → columns, and which are sensitive."""
    found = {}
    for source in list_sources():
        for resource in source.resources:
            contract = resource.contract
            pseudonyms = {
                contract.renames.get(entry.about.sensitive.into, entry.about.sensitive.into)
                for entry in contract.sensitive_fields
                if isinstance(entry.about.sensitive, Pseudonym)
            }
            found[resource.full_name] = SourceColumns(
                (*contract.columns, *BOOKKEEPING), frozenset(pseudonyms)
            )
    return found


def state_of(
    connection: psycopg.Connection, graph: ProjectGraph, keys: Mapping[str, ModelKeys]
) -> DbtState:
    """The state of the project that was read just now; any role that may read schema live."""
    return describe_state(graph, keys, live_shapes(connection, graph.resources), stored_sources())


def record_state(connection: psycopg.Connection, version_id: str, state: DbtState) -> None:
    """Notes that this state makes the version; in the caller's fenced transaction.

    A state that is known already is not written again, and held so that it does not go meanwhile.
    """
    state_id = state.state_id
    known = connection.execute(
        "select 1 from ops.dbt_states where state_id = %s for key share", [state_id]
    ).fetchone()
    if known is None:
        models = {name: model.as_json() for name, model in state.models.items()}
        connection.execute(
            "insert into ops.dbt_states (state_id, manifest, models) values (%s, %s, %s) "
            "on conflict do nothing",
            [state_id, state.packed_manifest(), Jsonb(models)],
        )
    connection.execute(query("states_link"), {"version_id": version_id, "state_id": state_id})


def read_model_states(connection: psycopg.Connection, version_id: str) -> dict[str, ModelState]:
    """model → what the version's project says of it; empty when that was never recorded."""
    row = connection.execute(query("states_models"), {"version_id": version_id}).fetchone()
    states: Mapping[str, Any] = row[0] if row else {}
    return {name: ModelState.from_json(value) for name, value in states.items()}


def read_dbt_manifest(connection: psycopg.Connection, version_id: str) -> dict[str, Any] | None:
    """dbt's manifest of the version's project; None when it was never recorded."""
    row = connection.execute(query("states_manifest"), {"version_id": version_id}).fetchone()
    return unpack_manifest(row[0]) if row else None

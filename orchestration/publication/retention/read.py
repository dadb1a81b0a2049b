"""Reads the facts, as any role that may read `ops`; nothing here writes.

What is read may be old a moment later, unless the reader holds the build lease; the functions that
drop look again.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import psycopg

from orchestration.pipelines.spec import Retention
from orchestration.publication.retention.facts import (
    ArtifactFact,
    CheckpointFact,
    ManifestFact,
    PipelineFacts,
    QuarantineFact,
    RelationFact,
    RunFact,
    StoreFacts,
    VersionFact,
)
from orchestration.sql.rows import rows_of


def read_pipeline(connection: psycopg.Connection, pipeline: str) -> PipelineFacts:
    """Everything of one pipeline, in one snapshot of its own."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        [pointer] = rows_of(connection, "retention_pointer", [pipeline])
        return PipelineFacts(
            pipeline=pipeline,
            now=pointer["now"],
            published=pointer["published"],
            rollback_to=pointer["rollback_to"],
            versions=tuple(
                VersionFact(**row | {"relations": frozenset(row["relations"])})
                for row in rows_of(connection, "retention_versions", [pipeline])
            ),
            runs=tuple(_run(row) for row in rows_of(connection, "retention_runs", [pipeline])),
            manifests=tuple(
                ManifestFact(**row | {"artifacts": frozenset(row["artifacts"])})
                for row in rows_of(connection, "retention_manifests", [pipeline])
            ),
            artifacts=tuple(
                _artifact(row) for row in rows_of(connection, "retention_artifacts", [pipeline])
            ),
            checkpoints=tuple(
                CheckpointFact(**row | {"output": frozenset(row["output"]) - {None}})
                for row in rows_of(connection, "retention_checkpoints", [pipeline])
            ),
            quarantine=tuple(
                QuarantineFact(**row)
                for row in rows_of(connection, "retention_quarantine", {"pipeline": pipeline})
            ),
        )


def read_store(connection: psycopg.Connection, policies: Mapping[str, Retention]) -> StoreFacts:
    """Everything about the store, in one snapshot; `policies` say how long a failed run may resume."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        [store] = rows_of(connection, "retention_store", [])
        runs = [
            row["run_id"]
            for row in rows_of(connection, "retention_open_runs", [])
            if row["is_open"]
            or row["ended_at"] > store["now"] - _resumable(policies.get(row["pipeline"]))
        ]
        return StoreFacts(
            now=store["now"],
            versions={name: frozenset(relations) for name, relations in store["versions"].items()},
            slots=frozenset(store["slots"]),
            open_runs=frozenset(runs),
            relations=tuple(
                RelationFact(
                    **row | {"reads": frozenset(row["reads"]), "readers": tuple(row["readers"])}
                )
                for row in rows_of(connection, "retention_relations", [])
            ),
            schemas=tuple(sorted(store["schemas"])),
        )


def _resumable(policy: Retention | None) -> timedelta:
    return timedelta(days=(policy or Retention()).run_days)


def _run(row: dict[str, Any]) -> RunFact:
    asked = row.pop("partitions")
    return RunFact(
        **row,
        partitions=frozenset(
            ((resource, window), revision) for resource, window, revision, _ in asked
        ),
        artifacts=frozenset(artifact for _, _, _, artifact in asked if artifact),
    )


def _artifact(row: dict[str, Any]) -> ArtifactFact:
    window = (row.pop("resource"), row.pop("window_name"))
    return ArtifactFact(**row, window=window)

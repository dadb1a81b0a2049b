"""Manifests: the exact set of artifacts that a version is built from, named by their contents."""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from ingestion.partitions import SNAPSHOT
from orchestration.identity import ManifestId, digest, manifest_id
from orchestration.warehouse.artifacts import Artifact, accepted_artifacts, artifacts_of_manifest
from orchestration.warehouse.fence import Lease, assert_fence


@dataclass(frozen=True)
class Manifest:
    """A set of artifacts, at most one for each resource and window."""

    manifest_id: ManifestId
    pipeline: str
    artifacts: tuple[Artifact, ...]

    def checksums(self, resources: Sequence[str]) -> dict[str, str]:
        """resource → digest of the contents of all its artifacts (also when it has none)."""
        parts: dict[str, list[tuple[str, int, str]]] = {resource: [] for resource in resources}
        for artifact in self.artifacts:
            parts.setdefault(artifact.resource, []).append(
                (artifact.window_name, artifact.loaded or 0, artifact.checksum or "")
            )
        return {resource: digest(sorted(entries)) for resource, entries in parts.items()}

    def windows(self, resources: Sequence[str]) -> dict[str, dict[str, Artifact]]:
        """resource → window → artifact, for those of the resources that are loaded by window.

        One of which nothing is there has no windows, whichever way it is going to be loaded.
        """
        found: dict[str, dict[str, Artifact]] = {resource: {} for resource in resources}
        for artifact in self.artifacts:
            if artifact.window_name == SNAPSHOT:
                found.pop(artifact.resource, None)
            elif artifact.resource in found:
                found[artifact.resource][artifact.window_name] = artifact
        return found


def compose_manifest(connection: psycopg.Connection, pipeline: str) -> Manifest:
    """Everything accepted so far for the pipeline; nothing is written."""
    artifacts = accepted_artifacts(connection, pipeline)
    contents = [
        (artifact.resource, artifact.window_name, artifact.loaded or 0, artifact.checksum or "")
        for artifact in artifacts
    ]
    identity = manifest_id(pipeline, contents)
    return Manifest(identity, pipeline, tuple(artifacts))


def load_manifest(connection: psycopg.Connection, manifest: ManifestId, pipeline: str) -> Manifest:
    """A manifest as it was written down."""
    return Manifest(manifest, pipeline, tuple(artifacts_of_manifest(connection, manifest)))


def record_manifest(
    connection: psycopg.Connection, manifest: Manifest, run_id: str, lease: Lease
) -> None:
    """Writes the manifest unless it is there. One transaction; the runner's connection.

    Another set of artifacts with the same contents is the same manifest, so the first one stays.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        inserted = connection.execute(
            "insert into ops.manifests (manifest_id, pipeline, run_id) values (%s, %s, %s) "
            "on conflict do nothing returning manifest_id",
            [manifest.manifest_id, manifest.pipeline, run_id],
        ).fetchone()
        if inserted is None:
            return
        with (
            connection.cursor() as cursor,
            cursor.copy(
                "copy ops.manifest_artifacts (manifest_id, resource, window_name, artifact_id) from stdin"
            ) as copy,
        ):
            for artifact in manifest.artifacts:
                copy.write_row(
                    (
                        manifest.manifest_id,
                        artifact.resource,
                        artifact.window_name,
                        artifact.artifact_id,
                    )
                )

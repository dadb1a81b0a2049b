"""A version as its judges see it: models, their partitions, and the artifacts that it is made of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import psycopg

from ingestion.partitions import SNAPSHOT
from orchestration.errors import InternalError
from orchestration.identity import VersionId
from orchestration.publication.versions import VersionModel, version_models
from orchestration.warehouse.artifacts import Artifact
from orchestration.warehouse.dbt.state import ModelState
from orchestration.warehouse.manifests import Manifest
from orchestration.warehouse.segments.slices import Slices, read_slices
from orchestration.warehouse.states import read_model_states

Columns = tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class UnderTest:
    """`slices` has the models that are kept in partitions, `columns` what readers see of each.

    `states` says how rows are told apart, and what is sensitive; nothing of what was not recorded.
    """

    version_id: VersionId
    manifest: Manifest
    models: Mapping[str, VersionModel]
    columns: Mapping[str, Columns]
    slices: Mapping[str, Slices]
    states: Mapping[str, ModelState]

    @cached_property
    def relations(self) -> dict[str, str]:
        """model → relation in schema store."""
        return {name: model.relation_name for name, model in self.models.items()}

    @cached_property
    def content_keys(self) -> dict[str, str]:
        return {name: model.content_key for name, model in self.models.items()}

    @cached_property
    def windowed(self) -> dict[str, dict[str, Artifact]]:
        """resource → window → artifact, for the resources that are loaded by window."""
        found: dict[str, dict[str, Artifact]] = {}
        for artifact in self.manifest.artifacts:
            if artifact.window_name != SNAPSHOT:
                found.setdefault(artifact.resource, {})[artifact.window_name] = artifact
        return found

    def artifacts_of(self, partitions: Iterable[str]) -> list[Artifact]:
        """What these partitions are made from; small whole tables belong to each."""
        wanted = {*partitions, SNAPSHOT}
        return [item for item in self.manifest.artifacts if item.window_name in wanted]


def read_under_test(
    connection: psycopg.Connection, version_id: VersionId, manifest: Manifest
) -> UnderTest:
    """Reads rows of ops only. Raises `InternalError` for a relation that was never adopted."""
    models = {model.model: model for model in version_models(connection, version_id)}
    rows = connection.execute(
        "select relation_name, columns from ops.relations "
        "where state = 'adopted' and relation_name = any(%s)",
        [[model.relation_name for model in models.values()]],
    ).fetchall()
    known = {relation: tuple(columns) for relation, columns in rows}
    for name, model in models.items():
        if model.relation_name not in known:
            raise InternalError(
                f"{name}: {model.relation_name} was never adopted; build the version again"
            )
    columns = {name: known[model.relation_name] for name, model in models.items()}
    found = {
        name: read_slices(connection, model.relation_name, columns[name])
        for name, model in models.items()
    }
    return UnderTest(
        version_id,
        manifest,
        models,
        columns,
        {name: slices for name, slices in found.items() if slices is not None},
        read_model_states(connection, version_id),
    )

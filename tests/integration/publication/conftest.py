import itertools
from collections.abc import Mapping
from datetime import timedelta

import psycopg
import pytest
from segment_tables import Segments, add_partitioned, add_table

from orchestration.identity import VersionId, digest
from orchestration.publication.flip import Publication, publish_version
from orchestration.publication.grace import Patience
from orchestration.publication.rollback import rollback
from orchestration.publication.shape_rules import Allowed
from orchestration.publication.slots import PreparedSlot, prepare_slot
from orchestration.publication.versions import published_version
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease

_numbers = itertools.count(1)


class Pipeline:
    """Builds versions the way the transform stage leaves them, and publishes them under a lease."""

    def __init__(self, warehouse: Warehouse, name: str = "flights") -> None:
        self.warehouse = warehouse
        self.name = name
        with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            row = connection.execute(
                "select ops.acquire_lease(%s, 'test', %s)", [f"publish:{name}", timedelta(hours=1)]
            ).fetchone()
        assert row is not None
        self.lease = Lease(f"publish:{name}", row[0])

    def build(
        self,
        models: Mapping[str, str | Segments],
        artifacts: Mapping[str, int] | None = None,
        *,
        state: str = "passed",
        after: str = "",
    ) -> VersionId:
        """A version of models (name → select, or segments) made from `resource/window` → revision."""
        revisions = artifacts or {"flights.weather/2013-01-01": 1}
        manifest = "m_" + digest([self.name, *sorted(revisions.items())])[:16]
        relations = {model: self._relation(model, text, after) for model, text in models.items()}
        version = VersionId("v_" + digest([self.name, manifest, relations])[:16])
        resources = sorted({part.partition("/")[0] for part in revisions})
        with self.warehouse.connect() as owner:
            self._artifacts(owner, manifest, revisions)
            owner.execute(
                "insert into ops.versions "
                "(version_id, pipeline, manifest_id, run_id, code_id, state) "
                "values (%s, %s, %s, 'r', 'c', %s)",
                [version, self.name, manifest, state],
            )
            for model, relation in relations.items():
                owner.execute(
                    "insert into ops.version_models values (%s, %s, %s, %s, true, '{}', %s)",
                    [version, model, relation, relation, resources],
                )
        return version

    def prepare(
        self, version: VersionId, patience: Patience | None = None, allowed: Allowed | None = None
    ) -> PreparedSlot:
        return prepare_slot(
            self.warehouse,
            self.name,
            version,
            lease=self.lease,
            patience=patience,
            allowed=allowed,
        )

    def flip(self, version: VersionId, **options: object) -> Publication:
        values: dict[str, object] = {
            "expected_current": self.published(),
            "lease": self.lease,
            "run_id": None,
            "owner": "owner@example.org",
        }
        return publish_version(self.warehouse, self.name, version, **{**values, **options})

    def publish(
        self, version: VersionId, patience: Patience | None = None, allowed: Allowed | None = None
    ) -> Publication:
        self.prepare(version, patience, allowed)
        return self.flip(version)

    def rollback(self, version: VersionId | None = None) -> Publication:
        return rollback(
            self.warehouse,
            self.name,
            version,
            reason="it was wrong",
            lease=self.lease,
            owner="owner@example.org",
            actor="operator",
        )

    def published(self) -> VersionId | None:
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            return published_version(connection, self.name)

    def read(self, query: str) -> list[tuple[object, ...]]:
        with self.warehouse.connect(Role.ANALYST, autocommit=True) as connection:
            return connection.execute(query).fetchall()

    def _relation(self, model: str, content: str | Segments, after: str) -> str:
        with self.warehouse.connect(Role.TRANSFORMER) as connection:
            if isinstance(content, str):
                return add_table(connection, self.name, model, content, after)
            return add_partitioned(connection, self.name, model, content, after)

    def _artifacts(
        self, owner: psycopg.Connection, manifest: str, revisions: Mapping[str, int]
    ) -> None:
        owner.execute(
            "insert into ops.manifests values (%s, %s, 'r') on conflict do nothing",
            [manifest, self.name],
        )
        for part, revision in revisions.items():
            resource, window = part.split("/")
            artifact = f"{self.name} {part}@{revision}"
            owner.execute(
                "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, "
                "revision, partition, run_id, lease_name, fence, state, fetched, loaded, "
                "quarantined, checksum, acceptance) values (%s, %s, %s, %s, %s, %s, 'r', "
                "'l', 1, 'adopted', 1, 1, 0, %s, 'accepted') on conflict do nothing",
                [artifact, self.name, resource, window, revision, f"{part}@{revision}", artifact],
            )
            owner.execute(
                "insert into ops.manifest_artifacts values (%s, %s, %s, %s) on conflict do nothing",
                [manifest, resource, window, artifact],
            )


@pytest.fixture
def flights(warehouse: Warehouse) -> Pipeline:
    return Pipeline(warehouse)


@pytest.fixture
def weather(warehouse: Warehouse) -> Pipeline:
    """A second pipeline in the same warehouse."""
    return Pipeline(warehouse, "weather")


@pytest.fixture
def impatient() -> Patience:
    return Patience(wait_s=0.4)

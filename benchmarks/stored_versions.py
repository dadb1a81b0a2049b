"""Versions as the transform and gate stages leave them, made by SQL alone, for what comes after them."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from orchestration.identity import VersionId, digest
from orchestration.publication.flip import Publication, publish_version
from orchestration.publication.grace import Patience
from orchestration.publication.slots import PreparedSlot, prepare_slot
from orchestration.publication.versions import published_version
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.setup import set_up

PIPELINE = "benchmark"
WINDOWS = tuple(f"p{number:02}" for number in range(16))


@dataclass(frozen=True)
class Segmented:
    """A model kept as segments: `select` with `{first}`, `{last}` (ids) and `{partition}`."""

    select: str
    rows: int
    index: str = ""

    def segments(self) -> Iterator[tuple[str, str]]:
        """(partition, select of its rows); as many as there are windows."""
        size = self.rows // len(WINDOWS)
        for number, window in enumerate(WINDOWS):
            last = (number + 1) * size if number < len(WINDOWS) - 1 else self.rows
            text = self.select.format(first=number * size + 1, last=last, partition=window)
            yield window, text


Content = str | Segmented


@contextlib.contextmanager
def warehouse_for(url: str | None) -> Iterator[Warehouse]:
    """A server made for the occasion, fsync on, or an empty database that belongs to its owner."""
    if url is not None:
        warehouse = Warehouse(url)
        set_up(warehouse)
        yield warehouse
        return
    home = Path(tempfile.mkdtemp(prefix="sluice-benchmark-"))
    home.chmod(0o755)
    server = EmbeddedServer(home)
    server.start()
    try:
        warehouse = Warehouse(server.url())
        set_up(warehouse)
        yield warehouse
    finally:
        server.destroy()
        shutil.rmtree(home, ignore_errors=True)


class StoredVersions:
    """Builds versions of one pipeline and publishes them under its lease."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        with warehouse.connect(autocommit=True) as owner:
            self._add_manifest(owner)
        with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
            row = runner.execute(
                "select ops.acquire_lease(%s, 'benchmark', %s)",
                [f"build/{PIPELINE}", timedelta(hours=12)],
            ).fetchone()
        assert row is not None
        assert row[0] is not None, "another benchmark uses this database"
        self.lease = Lease(f"build/{PIPELINE}", row[0])

    def build(self, models: Mapping[str, Content]) -> VersionId:
        """A version that passed its gate; relations that are there already are used again."""
        with self.warehouse.connect(Role.TRANSFORMER) as transformer:
            relations = {
                name: self._whole(transformer, name, content)
                if isinstance(content, str)
                else self._segmented(transformer, name, content)
                for name, content in models.items()
            }
        version = VersionId("v_" + digest(relations)[:16])
        with self.warehouse.connect(autocommit=True) as owner:
            owner.execute(
                "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id, state) "
                "values (%s, %s, 'm_benchmark', 'r', 'c', 'passed')",
                [version, PIPELINE],
            )
            owner.cursor().executemany(
                "insert into ops.version_models values (%s, %s, %s, %s, true, '{}', '{b.days}')",
                [[version, name, relation, relation] for name, relation in relations.items()],
            )
        return version

    def prepare(self, version: VersionId, patience: Patience | None = None) -> PreparedSlot:
        return prepare_slot(self.warehouse, PIPELINE, version, lease=self.lease, patience=patience)

    def flip(self, version: VersionId) -> Publication:
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
            current = published_version(runner, PIPELINE)
        return publish_version(
            self.warehouse,
            PIPELINE,
            version,
            expected_current=current,
            lease=self.lease,
            run_id=None,
            owner="owner@example.com",
        )

    def _add_manifest(self, owner: psycopg.Connection) -> None:
        owner.execute("insert into ops.manifests values ('m_benchmark', %s, 'r')", [PIPELINE])
        for window in WINDOWS:
            owner.execute(
                "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
                "partition, run_id, lease_name, fence, state, fetched, loaded, quarantined, checksum, "
                "acceptance) values (%s, %s, 'b.days', %s, 1, %s, 'r', 'l', 1, 'adopted', 1, 1, 0, 'c', "
                "'accepted')",
                [window, PIPELINE, window, f"b.days/{window}@1"],
            )
            owner.execute(
                "insert into ops.manifest_artifacts values ('m_benchmark', 'b.days', %s, %s)",
                [window, window],
            )

    def _whole(self, transformer: psycopg.Connection, model: str, text: str) -> str:
        key = digest([model, text])
        return self._table(transformer, model, key, text, "")

    def _segmented(self, transformer: psycopg.Connection, model: str, content: Segmented) -> str:
        key = digest([model, content.select, content.rows])
        relation = f"{model}__{key[:12]}"
        if _exists(transformer, relation):
            return relation
        segments = []
        for window, text in content.segments():
            name = self._table(transformer, model, digest([key, window]), text, content.index)
            segments.append((name, window))
        columns = _columns(transformer, segments[0][0])
        names = ", ".join(column["name"] for column in columns)
        branches = " union all ".join(
            f"select {names}, true as _live from store.{name}" for name, _ in segments
        )
        for view, text in (
            (f"{relation}__live", branches),
            (relation, f"select {names} from store.{relation}__live where _live"),
        ):
            transformer.execute(f"create view store.{view} as {text}".encode())
            transformer.execute("select ops.seal_relation(%s)", [view])
        _adopt(transformer, relation, model, key, "view", columns[:-1])
        for name, window in segments:
            transformer.execute("insert into ops.view_segments values (%s, %s)", [relation, name])
            transformer.execute(
                "insert into ops.segment_partitions values (%s, %s, %s, 0)",
                [name, window, digest([key, window])],
            )
        return relation

    def _table(
        self, transformer: psycopg.Connection, model: str, key: str, text: str, index: str
    ) -> str:
        name = f"{model}__{key[:12]}"
        if not _exists(transformer, name):
            transformer.execute(f"create table store.{name} as {text}".encode())
            for columns in filter(None, index.split(";")):
                transformer.execute(f"create index on store.{name} ({columns})".encode())
            transformer.execute(f"analyze store.{name}".encode())
            transformer.execute("select ops.seal_relation(%s)", [name])
            _adopt(transformer, name, model, key, "table", _columns(transformer, name))
        return name


def _exists(connection: psycopg.Connection, relation: str) -> bool:
    row = connection.execute(
        "select 1 from ops.relations where relation_name = %s", [relation]
    ).fetchone()
    return row is not None


def _columns(connection: psycopg.Connection, relation: str) -> list[dict[str, str]]:
    rows = connection.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0 order by attnum",
        [f"store.{relation}"],
    ).fetchall()
    return [{"name": name, "type": kind} for name, kind in rows]


def _adopt(
    connection: psycopg.Connection,
    relation: str,
    model: str,
    key: str,
    kind: str,
    columns: Sequence[Mapping[str, str]],
) -> None:
    connection.execute(
        "insert into ops.relations (relation_name, model, content_key, kind, run_id, lease_name, "
        "fence, state, row_count, columns) values (%s, %s, %s, %s, 'r', 'l', 1, 'adopted', 0, %s)",
        [relation, model, key, kind, Jsonb(list(columns))],
    )

"""A worker whose lease went to another one changes nothing, whatever it tries to write."""

from collections.abc import Callable
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.types.json import Jsonb

from ingestion.partitions import Partition
from ingestion.sources import get_resource
from ingestion.spool import Fetched
from orchestration.errors import LeaseLost, SourceFailure
from orchestration.identity import ArtifactId, RunId, VersionId
from orchestration.model import Outcome, PartitionState, StageName, StageStatus
from orchestration.publication.flip import publish_version
from orchestration.publication.slots import prepare_slot
from orchestration.runs.checkpoints import begin_attempts, record_failure, record_success
from orchestration.runs.leases import try_acquire
from orchestration.runs.state import (
    finish_run,
    finish_stage,
    mark_partitions,
    start_run,
    start_stage,
)
from orchestration.stages.base import Unit
from orchestration.warehouse import artifacts, store
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.build import PlannedRelation
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.manifests import Manifest, record_manifest
from orchestration.warehouse.versions import VersionRecord, record_version

PARTITION = Partition("flights.airlines", "snapshot", 1)
RELATION = PlannedRelation("dim_carrier", "a" * 64, "b" * 64, "dim_carrier__0123456789ab", "table")
VERSION = VersionId("v_0123456789abcdef")
RUN = RunId("r_0123456789abcdef")
UNIT = Unit("flights", StageName.EXTRACT, str(PARTITION), "lease/test", str(PARTITION))
TABLES = [
    *("runs", "run_partitions", "run_stages", "checkpoints", "attempts", "outbox", "artifacts"),
    *("manifests", "manifest_artifacts", "relations", "versions", "version_models", "verdicts"),
    *("publications", "publication_pointer", "slot_views", "published_models"),
]


def everything(warehouse: Warehouse) -> dict[str, list[str]]:
    """Every row of ops but the leases, the staged rows, and who owns what in the store."""
    with warehouse.connect() as connection:
        seen = {
            table: [
                row[0]
                for row in connection.execute(
                    f"select t::text from ops.{table} t order by 1".encode()
                ).fetchall()
            ]
            for table in TABLES
        }
        for name, statement in {
            "quarantine": "select t::text from quarantine.records t order by 1",
            "staging": "select t::text from staging.flights__airlines t order by 1",
            "views": "select relnamespace::regnamespace || '.' || relname || ' ' || relowner::regrole "
            "from pg_class where relnamespace::regnamespace::text in "
            "('store', 'slot_a', 'slot_b', 'analytics') order by 1",
        }.items():
            seen[name] = [row[0] for row in connection.execute(statement.encode()).fetchall()]
    return seen


def expire(warehouse: Warehouse, name: str) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "update ops.leases set expires_at = clock_timestamp() - interval '1 second', "
            "holder = 'elsewhere|1|1' where name = %s",
            [name],
        )


@pytest.fixture
def late(warehouse: Warehouse) -> Lease:
    """A lease under which work was begun, and which another worker has taken over since."""
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        lease = try_acquire(runner, UNIT.lease_name)
        assert lease is not None
        assert try_acquire(runner, UNIT.lease_name) is None
        runner.execute(
            "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, "
            "as_of, correlation_id, workflow_id) "
            "values (%s, 'flights', 'manual', 'k', 'c', %s, now(), 'c', 'w')",
            [RUN, Jsonb({})],
        )
        runner.execute(
            "insert into ops.run_partitions (run_id, resource, window_name, revision) "
            "values (%s, %s, %s, %s)",
            [RUN, PARTITION.resource, PARTITION.window, PARTITION.revision],
        )
        start_run(runner, RUN, lease)
        start_stage(runner, RUN, StageName.EXTRACT, 1, lease)
        begin_attempts(runner, RUN, [(UNIT, lease)])
        record_manifest(runner, Manifest("m_" + "0" * 16, "flights", ()), RUN, lease)
    with warehouse.connect(Role.EXTRACTOR, autocommit=True) as extractor:
        artifacts.register_loading(
            extractor, "flights", RUN, [(ArtifactId("a_late"), PARTITION, lease)]
        )
        extractor.execute(
            "insert into staging.flights__airlines (carrier, name, _artifact_id, _partition, _run_id, "
            "_source_ref) values ('AA', 'American', 'a_late', %s, %s, '/v1/airlines?page=1#0')",
            [str(PARTITION), RUN],
        )
    with warehouse.connect(Role.TRANSFORMER, autocommit=True) as transformer:
        store.register_loading(transformer, [RELATION], run_id=RUN, lease=lease)
        transformer.execute(
            f"create table store.{RELATION.relation_name} as select 1 as x".encode()
        )
    with warehouse.connect(autocommit=True) as owner:
        owner.execute(
            "insert into ops.versions (version_id, pipeline, manifest_id, run_id, code_id, state) "
            "values (%s, 'flights', %s, %s, 'c', 'passed')",
            [VERSION, "m_" + "0" * 16, RUN],
        )
        owner.execute(
            "insert into ops.relations (relation_name, model, content_key, kind, run_id, lease_name, "
            "fence, state, row_count, columns) values ('dim_airport__0123456789ab', 'dim_airport', "
            "%s, 'table', %s, 'l', 1, 'adopted', 1, %s)",
            ["c" * 64, RUN, Jsonb([{"name": "x", "type": "integer"}])],
        )
        owner.execute("create table store.dim_airport__0123456789ab as select 1 as x")
        owner.execute(
            "insert into ops.version_models values "
            "(%s, 'dim_airport', 'dim_airport__0123456789ab', %s, true, '{}', '{}')",
            [VERSION, "c" * 64],
        )
    expire(warehouse, UNIT.lease_name)
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        successor = try_acquire(runner, UNIT.lease_name)
    assert successor is not None
    assert successor.fence > lease.fence
    return lease


FETCHED = Fetched(
    ref="r",
    checksum="c",
    resource="flights.airlines",
    partition=str(PARTITION),
    run_id=RUN,
    fetched=1,
    accepted=1,
    rejected=0,
    schema_version="1",
    contract_version="1",
    unexpected_fields=(),
    fetched_at=datetime(2013, 3, 1, tzinfo=UTC),
)

Write = Callable[[Warehouse, psycopg.Connection, Lease], object]
# Each takes the warehouse, a connection of the role that makes this write, and the lease.
WRITES: dict[str, tuple[Role, Write]] = {
    "start_run": (Role.RUNNER, lambda _, c, lease: start_run(c, RUN, lease)),
    "finish_run": (
        Role.RUNNER,
        lambda _, c, lease: finish_run(
            c, RUN, lease, Outcome.PUBLISHED, failure=None, version_id=VERSION
        ),
    ),
    "start_stage": (
        Role.RUNNER,
        lambda _, c, lease: start_stage(c, RUN, StageName.VALIDATE, 2, lease),
    ),
    "finish_stage": (
        Role.RUNNER,
        lambda _, c, lease: finish_stage(c, RUN, StageName.EXTRACT, lease, StageStatus.SUCCEEDED),
    ),
    "mark_partitions": (
        Role.RUNNER,
        lambda _, c, lease: mark_partitions(
            c, RUN, lease, [(PARTITION, PartitionState.EXTRACTED, "a_late")]
        ),
    ),
    "begin_attempts": (Role.RUNNER, lambda _, c, lease: begin_attempts(c, RUN, [(UNIT, lease)])),
    "record_success": (
        Role.RUNNER,
        lambda _, c, lease: record_success(
            c, UNIT, lease, output_ref="a_late", checksum="1", result={}
        ),
    ),
    "record_failure": (
        Role.RUNNER,
        lambda _, c, lease: record_failure(c, UNIT, lease, SourceFailure("away", code="away")),
    ),
    "record_manifest": (
        Role.RUNNER,
        lambda _, c, lease: record_manifest(
            c, Manifest("m_" + "1" * 16, "flights", ()), RUN, lease
        ),
    ),
    "register_artifact": (
        Role.EXTRACTOR,
        lambda _, c, lease: artifacts.register_loading(
            c, "flights", RUN, [(ArtifactId("a_later"), PARTITION, lease)]
        ),
    ),
    "adopt_artifact": (
        Role.EXTRACTOR,
        lambda _, c, lease: artifacts.adopt_artifact(
            c,
            ArtifactId("a_late"),
            get_resource("flights.airlines"),
            FETCHED,
            lease,
            keep_rejected=lambda: 0,
        ),
    ),
    "register_relation": (
        Role.TRANSFORMER,
        lambda _, c, lease: store.register_loading(c, [RELATION], run_id=RUN, lease=lease),
    ),
    "adopt_relations": (
        Role.TRANSFORMER,
        lambda _, c, lease: store.adopt_relations(c, [RELATION], lease),
    ),
    "record_version": (
        Role.TRANSFORMER,
        lambda _, c, lease: record_version(
            c, VersionRecord("v_" + "1" * 16, "flights", "m_" + "0" * 16, RUN, "c"), [], lease
        ),
    ),
    "prepare_slot": (
        Role.PUBLISHER,
        lambda w, _, lease: prepare_slot(w, "flights", VERSION, lease=lease),
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_late_writer_changes_nothing(warehouse: Warehouse, late: Lease, write: str) -> None:
    before = everything(warehouse)
    role, act = WRITES[write]
    with (
        warehouse.connect(role, autocommit=True) as connection,
        pytest.raises(LeaseLost, match="another worker"),
    ):
        act(warehouse, connection, late)
    assert everything(warehouse) == before


def test_a_late_publisher_changes_nothing(warehouse: Warehouse, late: Lease) -> None:
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        row = runner.execute("select fence from ops.leases where name = %s", [late.name]).fetchone()
    assert row is not None
    prepare_slot(warehouse, "flights", VERSION, lease=Lease(late.name, row[0]))
    before = everything(warehouse)
    with pytest.raises(LeaseLost):
        publish_version(
            warehouse, "flights", VERSION, expected_current=None, lease=late, run_id=RUN, owner="o"
        )
    assert everything(warehouse) == before


def test_what_a_late_writer_loaded_is_swept_even_when_it_arrives_after_the_sweep(
    warehouse: Warehouse, late: Lease
) -> None:
    assert late.name == UNIT.lease_name
    with warehouse.connect(Role.EXTRACTOR, autocommit=True) as extractor:
        assert artifacts.sweep_orphans(extractor, "flights") == 1
        extractor.execute(
            "insert into staging.flights__airlines (carrier, name, _artifact_id, _partition, _run_id, "
            "_source_ref) values ('AA', 'American', 'a_late', 'p', 'r', '#0')"
        )
        assert artifacts.sweep_orphans(extractor, "flights") == 1
        assert extractor.execute("select * from staging.flights__airlines").fetchall() == []

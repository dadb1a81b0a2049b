"""Work that a worker began under a lease and did not end, and everything that it could still change."""

from datetime import UTC, datetime
from pathlib import Path

import psycopg
from psycopg.types.json import Jsonb

from ingestion.partitions import Partition
from ingestion.spool import Fetched
from orchestration.code import Code
from orchestration.identity import ArtifactId, ManifestId, RunId, VersionId
from orchestration.model import StageName
from orchestration.pipelines.files import get_pipeline
from orchestration.runs.budget import Budget
from orchestration.runs.checkpoints import begin_attempts, read_checkpoints
from orchestration.runs.leases import try_acquire
from orchestration.runs.state import get_run, start_run, start_stage
from orchestration.settings import Settings
from orchestration.stages.base import StageContext, Unit
from orchestration.warehouse import artifacts, store
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.plan import PlannedRelation
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.manifests import Manifest, record_manifest
from orchestration.warehouse.partitions import VisiblePartition
from orchestration.warehouse.segments.layout import Piece
from orchestration.warehouse.segments.slices import Slices

PARTITION = Partition("flights.airlines", "snapshot", 1)
RELATION = PlannedRelation("dim_carrier", "a" * 64, "b" * 64, "dim_carrier__0123456789ab", "table")
VERSION = VersionId("v_0123456789abcdef")
SLICES = Slices(
    "fct_flights__0123456789ab",
    ("seen_at", "_partition"),
    {"seen_at": "date"},
    {"2013-01-01": VisiblePartition("fct_flights__ba9876543210", "e" * 64, 1)},
    (Piece("fct_flights__ba9876543210", ("2013-01-01",), rows=1),),
    {"fct_flights__ba9876543210": frozenset()},
)
RUN = RunId("r_0123456789abcdef")
UNIT = Unit("flights", StageName.EXTRACT, str(PARTITION), "lease/test", str(PARTITION))
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
TABLES = [
    *("runs", "run_partitions", "run_stages", "checkpoints", "attempts", "outbox", "artifacts"),
    *("manifests", "manifest_artifacts", "relations", "versions", "version_models", "verdicts"),
    *("judgements", "partition_extremes", "breaches", "waivers"),
    *("publications", "publication_pointer", "slot_views", "published_models", "operator_actions"),
]


def everything(warehouse: Warehouse) -> dict[str, list[str]]:
    """Every row of ops but the leases, what is staged and kept out, and who owns what in the store."""
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
            "records": "select t::text from quarantine.records t order by 1",
            "partitions": "select t::text from quarantine.partitions t order by 1",
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


def begin_work(warehouse: Warehouse) -> Lease:
    """In every stage of one run something is begun under the lease that is returned."""
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
        record_manifest(runner, Manifest(ManifestId("m_" + "0" * 16), "flights", ()), RUN, lease)
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
            "insert into ops.outbox (dedup_key, pipeline, run_id, kind, owner, payload) "
            "values ('k', 'flights', %s, 'published', 'o@example.com', '{}')",
            [RUN],
        )
        owner.execute(
            "insert into ops.version_models values "
            "(%s, 'dim_airport', 'dim_airport__0123456789ab', %s, true, '{}', '{}')",
            [VERSION, "c" * 64],
        )
    return lease


def hand_over(warehouse: Warehouse, lease: Lease) -> Lease:
    """The lease runs out, and another worker takes it; its lease is returned."""
    expire(warehouse, lease.name)
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        successor = try_acquire(runner, lease.name)
    assert successor is not None
    assert successor.fence > lease.fence
    return successor


class Silence:
    """A progress that nobody sees."""

    def update(
        self, stage: str, text: str, done: int | None = None, total: int | None = None
    ) -> None: ...


def stage_context(
    warehouse: Warehouse, connection: psycopg.Connection, lease: Lease
) -> StageContext:
    """What a stage of the run is given; `connection` is the runner's."""
    settings = Settings()
    return StageContext(
        settings=settings,
        warehouse=warehouse,
        pipeline=get_pipeline(settings.pipelines_dir, "flights"),
        run=get_run(connection, RUN),
        code=Code("d", "s", "c", "p", commit=None, dirty=None),
        connection=connection,
        run_lease=lease,
        progress=Silence(),
        check_leases=lambda: None,
        read_checkpoints=lambda units: read_checkpoints(connection, units),
        budget=Budget(60),
        partitions=[],
        work_dir=Path(),
    )

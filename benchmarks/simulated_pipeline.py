"""A pipeline whose runs take a moment: what is loaded is a few rows, everything after that is our own code.

A run goes from what was accepted to a published version: manifest, keys, plan, merges, build, adoption,
candidate, slot, flip. dbt parses the project once; what it would build is built by the statements that it
would be given. Rows of runs, checkpoints and verdicts are written as the stages write them.
"""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import psycopg

from ingestion.partitions import SNAPSHOT
from orchestration.identity import VersionId, digest, version_id
from orchestration.pipelines.spec import Retention
from orchestration.publication.flip import publish_version
from orchestration.publication.slots import prepare_slot
from orchestration.publication.versions import published_version
from orchestration.runs.leases import release
from orchestration.runs.prune import Prune
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.dbt.graph import ProjectGraph
from orchestration.warehouse.dbt.keys import ModelKeys
from orchestration.warehouse.dbt.project import load_graph
from orchestration.warehouse.dbt.session import DbtSession
from orchestration.warehouse.dbt.state import DbtState
from orchestration.warehouse.dbt.statements import Writer
from orchestration.warehouse.fence import Lease, build_lease
from orchestration.warehouse.manifests import Manifest, compose_manifest, record_manifest
from orchestration.warehouse.planning import keys_of, plan_now, sources_of
from orchestration.warehouse.segments.arrange import arrange_segments
from orchestration.warehouse.segments.independence import check_independence
from orchestration.warehouse.states import state_of
from orchestration.warehouse.store import adopt_relations, register_loading
from orchestration.warehouse.versions import (
    VersionModel,
    VersionRecord,
    create_version_views,
    record_version,
)

PIPELINE = "year"
WEATHER, AIRLINES = "flights.weather", "flights.airlines"
FIRST = date(2013, 1, 1)
PUBLISHED = ("fct_weather", "agg_daily", "mean_week", "dim_airline", "sum_airport")
STAGES = ("initialize", "extract", "validate", "transform", "gate", "publish", "notify")
SUITES = ("readings", "airlines", "published")
_AIRPORTS = ("EWR", "JFK", "LGA")


@dataclass
class SimulatedPipeline:
    """One warehouse that is set up, and the runs of one pipeline in it."""

    warehouse: Warehouse
    project: Path
    policy: Retention = field(default_factory=Retention)
    runs: int = 0
    revisions: dict[tuple[str, str], int] = field(default_factory=dict)
    graph: ProjectGraph | None = None
    state: DbtState | None = None

    def load_weather(self, number: int, readings: int = 2) -> str:
        """The next revision of the n-th day, from 0; returns its artifact."""
        day = FIRST + timedelta(days=number)
        revision = self._next_revision(WEATHER, str(day))
        noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        rows = [
            (airport, 40 + (7 * number + revision + hour) % 50, noon + timedelta(hours=hour))
            for airport in _AIRPORTS
            for hour in range(readings)
        ]
        return self._load(WEATHER, str(day), revision, "origin, temp, time_hour", rows)

    def load_airlines(self) -> str:
        """The next snapshot; there is one airline more in it."""
        revision = self._next_revision(AIRLINES, SNAPSHOT)
        rows = [(f"{number:02}", f"Airline {number}") for number in range(revision)]
        return self._load(AIRLINES, SNAPSHOT, revision, "carrier, name", rows)

    def run(self, artifacts: Sequence[str], kind: str, *, passes: bool = True) -> float:
        """One run from accepted artifacts to the flip, or to a rejection; how many seconds it took."""
        self.runs += 1
        run = f"r_{self.runs:06}"
        started = time.monotonic()
        with (
            self.warehouse.connect(Role.RUNNER, autocommit=True) as runner,
            self.warehouse.connect(Role.TRANSFORMER, autocommit=True) as builder,
        ):
            lease = _acquire(runner)
            version = self._build(runner, builder, run, lease)
            state = "passed" if passes else "rejected"
            runner.execute(
                "update ops.versions set state = %s where version_id = %s and state = 'candidate'",
                [state, version],
            )
            if passes:
                runner.execute("select ops.drop_version_schema(%s)", [version])
                self._publish(runner, run, version, lease)
            release(runner, lease)
        took = time.monotonic() - started
        self._write_down(run, kind, artifacts, version, passes=passes)
        return took

    def prune(self) -> float:
        """What `sluice prune` does; how many seconds it took."""
        started = time.monotonic()
        done = Prune(self.warehouse, {PIPELINE: self.policy}, _Silence()).run()
        assert done.left == [], done.left
        return time.monotonic() - started

    def let_a_day_pass(self) -> None:
        """Everything that was written down is a day older, so that retention sees days go by."""
        with self.warehouse.connect() as owner:
            columns = owner.execute(
                "select table_name, array_agg(column_name::text) from information_schema.columns c "
                "join information_schema.tables t using (table_schema, table_name) "
                "where table_schema = 'ops' and data_type = 'timestamp with time zone' "
                "and table_type = 'BASE TABLE' and table_name <> 'leases' group by 1"
            ).fetchall()
            for table, names in columns:
                older = ", ".join(f"{name} = {name} - interval '1 day'" for name in names)
                owner.execute(f"update ops.{table} set {older}".encode())

    def _next_revision(self, resource: str, window: str) -> int:
        self.revisions[resource, window] = self.revisions.get((resource, window), 0) + 1
        return self.revisions[resource, window]

    def _load(
        self,
        resource: str,
        window: str,
        revision: int,
        columns: str,
        rows: Sequence[tuple[object, ...]],
    ) -> str:
        """An artifact, adopted and accepted, as the stages extract and validate leave it."""
        partition = f"{resource}/{window}@{revision}"
        artifact = f"a_{digest(partition)[:16]}"
        with self.warehouse.connect() as owner:
            owner.execute(
                "insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, "
                "partition, run_id, lease_name, fence, state, fetched, loaded, quarantined, checksum, "
                "fetched_at, adopted_at, acceptance) values (%s, %s, %s, %s, %s, %s, 'r', 'l', 1, "
                "'adopted', %s, %s, 0, %s, now(), now(), 'accepted')",
                [
                    *(artifact, PIPELINE, resource, window, revision, partition),
                    *(len(rows), len(rows), digest([[str(v) for v in row] for row in rows])),
                ],
            )
            marks = ", ".join(["%s"] * (len(rows[0]) + 4))
            owner.cursor().executemany(
                f"insert into staging.{resource.replace('.', '__')} ({columns}, _artifact_id, "
                f"_partition, _run_id, _source_ref) values ({marks})".encode(),
                [(*row, artifact, partition, "r", "simulated") for row in rows],
            )
        return artifact

    def _build(
        self, runner: psycopg.Connection, builder: psycopg.Connection, run: str, lease: Lease
    ) -> VersionId:
        manifest = compose_manifest(runner, PIPELINE)
        record_manifest(runner, manifest, run, lease)
        graph = self.graph = self.graph or self._parse(manifest)
        keys = keys_of(builder, graph, manifest)
        plan = plan_now(builder, graph, keys, secrets.token_hex(8))
        writer = Writer(graph, keys, plan, sources_of(builder, graph, manifest))
        register_loading(builder, plan.build, run_id=run, lease=lease)
        arrange_segments(builder, writer)
        # What dbt does with them, but for contracts and indexes.
        builder.execute("select set_config('sluice.manifest', %s, false)", [manifest.manifest_id])
        for planned in plan.by_dbt:
            statements = writer.build(planned)
            name = f"store.{planned.relation_name}"
            made = f"create {planned.kind} {name} as {statements.code}"
            with builder.transaction():
                for text in (*statements.before, made, *statements.after):
                    builder.execute(text.encode())
        check_independence(builder, writer, lease)
        adopted = adopt_relations(builder, plan.build, lease).adopted
        return self._record(
            builder, graph, keys, {**plan.relations, **adopted}, manifest, run, lease
        )

    def _record(
        self,
        builder: psycopg.Connection,
        graph: ProjectGraph,
        keys: dict[str, ModelKeys],
        relations: dict[str, str],
        manifest: Manifest,
        run: str,
        lease: Lease,
    ) -> VersionId:
        # The project stays as it is, so what it says of itself is asked once.
        self.state = self.state or state_of(builder, graph, keys)
        contents = {model: keys[model].content_key for model in relations}
        version = version_id(PIPELINE, manifest.manifest_id, contents, PUBLISHED)
        record_version(
            builder,
            VersionRecord(version, PIPELINE, manifest.manifest_id, run, "c"),
            [
                VersionModel(
                    model.name,
                    relations[model.name],
                    contents[model.name],
                    model.name in PUBLISHED,
                    model.parents,
                    model.resources,
                )
                for model in graph.models
            ],
            lease,
            self.state,
        )
        create_version_views(builder, version, relations, lease)
        return version

    def _publish(
        self, runner: psycopg.Connection, run: str, version: VersionId, lease: Lease
    ) -> None:
        prepare_slot(self.warehouse, PIPELINE, version, lease=lease)
        publish_version(
            self.warehouse,
            PIPELINE,
            version,
            expected_current=published_version(runner, PIPELINE),
            lease=lease,
            run_id=run,  # type: ignore[arg-type]
            owner="owner@example.com",
        )

    def _parse(self, manifest: Manifest) -> ProjectGraph:
        url = self.warehouse.url(Role.TRANSFORMER, **{"sluice.manifest": manifest.manifest_id})
        return load_graph(DbtSession(self.project, self.project.parent / "work", url), ["*"])

    def _write_down(
        self, run: str, kind: str, artifacts: Sequence[str], version: VersionId, *, passes: bool
    ) -> None:
        """What the runner and the gate keep of a run, and the leases that it leaves behind."""
        values = {
            "run": run, "pipeline": PIPELINE, "kind": kind, "version": version, "stages": list(STAGES),
            "artifacts": list(artifacts), "suites": list(SUITES),
            "outcome": "published" if passes else "held",
            "verdict": "passed" if passes else "failed",
        }  # fmt: skip
        with self.warehouse.connect() as owner:
            for text in _WRITTEN_DOWN.split(";"):
                owner.execute(text.encode(), values)


_WRITTEN_DOWN = """
insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, as_of, correlation_id,
    workflow_id, status, outcome, version_id, started_at, finished_at)
values (%(run)s, %(pipeline)s, %(kind)s, %(run)s, 'c', '{}', now(), 'c',
    'w', 'finished', %(outcome)s, %(version)s, now(), now());

insert into ops.run_partitions (run_id, resource, window_name, revision, state, artifact_id)
select %(run)s, resource, window_name, revision, 'extracted', artifact_id
from ops.artifacts where artifact_id = any(%(artifacts)s);

insert into ops.checkpoints (idempotency_key, pipeline, stage, source_partition, run_id, status, fence,
    attempt, input_ref, output_ref, finished_at)
select encode(sha256((%(run)s || s)::bytea), 'hex'), %(pipeline)s, s, %(run)s, %(run)s, 'succeeded', 1,
    1, %(version)s,
    case when s in ('extract', 'validate') then (%(artifacts)s::text[])[1] else %(version)s end, now()
from unnest(%(stages)s::text[]) as s;

insert into ops.attempts (idempotency_key, attempt, run_id, fence, worker, status, finished_at)
select idempotency_key, 1, run_id, 1, 'w', 'succeeded', now()
from ops.checkpoints where run_id = %(run)s;

insert into ops.verdicts (pipeline, run_id, stage, subject, suite, suite_hash, verdict, results)
select %(pipeline)s, %(run)s, 'gate', %(version)s, s, 'h', %(verdict)s, '{}'
from unnest(%(suites)s::text[]) as s;

insert into ops.judgements (pipeline, subject, rule, version_id, verdict, partitions)
select %(pipeline)s, s, repeat('0', 64), %(version)s, %(verdict)s, '{}'
from unnest(%(suites)s::text[]) as s
on conflict do nothing;

insert into ops.partition_extremes (partition_key, column_name)
select distinct p.partition_key, 'observed_at'
from ops.segment_partitions as p join ops.relations as r using (relation_name)
where r.run_id = %(run)s
on conflict do nothing;

insert into ops.leases (name, fence, expires_at)
select name, 1, now() - interval '1 second'
from unnest(array['run/' || %(run)s, 'partition/' || %(run)s]) as name;

update ops.outbox set delivered_at = now() where delivered_at is null
"""


def _acquire(runner: psycopg.Connection) -> Lease:
    """The build lease for longer than any run takes here, so that it needs no heartbeat."""
    name = build_lease(PIPELINE)
    row = runner.execute(
        "select ops.acquire_lease(%s, 'simulated', interval '1 hour')", [name]
    ).fetchone()
    assert row is not None
    assert row[0] is not None, "another process builds in this warehouse"
    return Lease(name, row[0])


class _Silence:
    def update(
        self, stage: str, text: str, done: int | None = None, total: int | None = None
    ) -> None: ...

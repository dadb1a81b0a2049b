"""One partition of carriers under decisions: real fetches and loads, the real roles, no suites."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import psycopg
from late_work import Silence
from psycopg.types.json import Jsonb

from ingestion.demo_api.server import DemoServer
from ingestion.partitions import SNAPSHOT, Partition
from orchestration.code import Code
from orchestration.identity import RunId
from orchestration.model import PartitionState, RunPartition, StageName
from orchestration.pipelines.files import get_pipeline
from orchestration.runs.budget import Budget
from orchestration.runs.checkpoints import read_checkpoints
from orchestration.runs.leases import release, try_acquire
from orchestration.runs.state import get_run
from orchestration.settings import Settings
from orchestration.sql.queries import query
from orchestration.stages import validate
from orchestration.stages.acceptance import Finding
from orchestration.stages.base import Claim, StageContext, Unit, UnitDone, UnitFailed, UnitResult
from orchestration.stages.extract import ExtractStage
from orchestration.stages.policies import gate_rules
from orchestration.triggers.retry import request_retries
from orchestration.warehouse.artifacts import Artifact, find_adopted
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.decisions import discard_records, release_partition
from orchestration.warehouse.fence import build_lease, partition_lease

RESOURCE = "flights.airlines"
RUN = RunId("r_" + "b" * 16)
TABLES = {"flights.airlines": "flights__airlines", "flights.weather": "flights__weather"}
_NOTHING: Mapping[int, Any] = {}


@dataclass
class Bench:
    """`fetch`, `load` and `judge` are a run's work; `retry`, `discard`, `release` a reviewer's."""

    warehouse: Warehouse
    demo: DemoServer
    home: Path
    resource: str = RESOURCE
    window: str = SNAPSHOT
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
            runner.execute(
                "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, "
                "as_of, correlation_id, workflow_id) "
                "values (%s, 'flights', 'manual', 'k', 'c', %s, now(), 'c', 'w')",
                [RUN, Jsonb({})],
            )

    def send(self, **names: Any) -> None:
        """From now on the source sends these carriers (`_9E` for 9E) with these names."""
        changes: list[tuple[Any, Any]] = [
            ({"carrier": carrier.lstrip("_")}, {"name": name}) for carrier, name in names.items()
        ]
        self.demo.correct("airlines", changes=changes)

    def fetch(self, *, accepted: bool = True) -> Artifact:
        """A new revision from the source, and the judgement on it."""
        revision = self.query(
            "select coalesce(max(revision), 0) + 1 from (select revision from ops.artifacts "
            "union all select revision from quarantine.retries) r"
        )[0][0]
        artifact = self.loaded(Partition(self.resource, self.window, int(revision)))
        self.judge(artifact, accepted=accepted)
        return self.artifact(self.partition_of(int(revision)))

    def retry(
        self,
        *records: int,
        corrections: Mapping[int, Any] = _NOTHING,
        accepted: bool = True,
        reason: str = "because",
    ) -> Partition | None:
        """The request, the load and the judgement; the partition, unless nothing passed."""
        partition = self.request(*records, corrections=corrections, reason=reason)
        if partition is not None:
            artifact = self.loaded(partition)
            if artifact.acceptance == "pending":
                self.judge(artifact, accepted=accepted)
        return partition

    def request(
        self,
        *records: int,
        corrections: Mapping[int, Any] = _NOTHING,
        reason: str = "because",
    ) -> Partition | None:
        with self.warehouse.connect(Role.REVIEWER, autocommit=True) as reviewer:
            requested = request_retries(
                reviewer,
                records,
                corrections,
                environ={"SLUICE_PSEUDONYM_KEY": "a key for tests"},
                reason=reason,
            )
        partitions = requested.partitions.get("flights", [])
        assert len(partitions) <= 1
        return partitions[0] if partitions else None

    def discard(self, *records: int, reason: str = "because") -> dict[int, bool]:
        with self.warehouse.connect(Role.REVIEWER, autocommit=True) as reviewer:
            return discard_records(reviewer, records, reason)

    def release(self, artifact: Artifact, reason: str = "because") -> bool:
        with self.warehouse.connect(Role.REVIEWER, autocommit=True) as reviewer:
            return release_partition(reviewer, artifact.artifact_id, reason)

    def loaded(self, partition: Partition) -> Artifact:
        """Loads it and fails the test unless it was adopted."""
        result = self.load(partition)
        assert isinstance(result, UnitDone), result
        return self.artifact(partition)

    def load(self, partition: Partition) -> UnitResult:
        """What the extract stage comes to for this partition, under its lease."""
        unit = Unit(
            pipeline="flights",
            stage=StageName.EXTRACT,
            source_partition=str(partition),
            lease_name=partition_lease("flights", partition.resource, partition.window),
            input_ref=str(partition),
        )
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
            lease = try_acquire(runner, unit.lease_name)
            assert lease is not None
            context = self.context(runner, [partition])
            try:
                results = list(ExtractStage().execute(context, [Claim(unit, lease, 1)]))
            finally:
                context.sessions.close()
                release(runner, lease)
        [result] = [item for item in results if not item.unit.step]
        assert isinstance(result, UnitDone | UnitFailed)
        return result

    def judge(self, artifact: Artifact, *, accepted: bool, rule: str = "min_records") -> str:
        """The judgement of the validate stage, as it writes it down; the acceptance that it left."""
        with self.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
            lease = try_acquire(runner, build_lease("flights"))
            assert lease is not None
            findings = [] if accepted else [Finding(rule, "too few")]
            context = self.context(runner, [])
            validate._record(runner, context, artifact, findings, gate_rules(context), lease)
            release(runner, lease)
        return self.artifact(Partition.parse(artifact.partition)).acceptance

    def context(self, runner: psycopg.Connection, partitions: Sequence[Partition]) -> StageContext:
        settings = Settings(home=self.home)
        return StageContext(
            settings=settings,
            warehouse=self.warehouse,
            pipeline=get_pipeline(settings.pipelines_dir, "flights"),
            run=get_run(runner, RUN),
            code=Code("d", "s", "c", "p", commit=None, dirty=None),
            connection=runner,
            run_lease=try_acquire(runner, f"run/bench-{next(self.numbers)}"),  # type: ignore[arg-type]
            progress=Silence(),
            check_leases=lambda: None,
            read_checkpoints=lambda units: read_checkpoints(runner, units),
            budget=Budget(600),
            partitions=[
                RunPartition(partition, PartitionState.REQUESTED, None) for partition in partitions
            ],
            work_dir=Path(mkdtemp(dir=self.home)),
        )

    def artifact(self, partition: Partition) -> Artifact:
        with self.warehouse.connect() as owner:
            return find_adopted(owner, "flights", [str(partition)])[str(partition)]

    def partition_of(self, revision: int) -> Partition:
        return Partition(self.resource, self.window, revision)

    def in_use(self) -> dict[str, str]:
        """source reference → carrier's name, of the revision that versions are built from."""
        table = TABLES[self.resource]
        return dict(
            self.query(
                f"select _source_ref, name from staging.{table} where _artifact_id = ("
                "select artifact_id from ops.artifacts where acceptance = 'accepted' "
                "order by source_revision desc, revision desc limit 1)"
            )
        )

    def records(self) -> dict[int, tuple[str, str]]:
        """record → (decision, rule)."""
        rows = self.query("select record_id, decision, rule from quarantine.records order by 1")
        return {number: (decision, rule) for number, decision, rule in rows}

    def events(self, record: int) -> list[str]:
        rows = self.query(
            f"select event from quarantine.decisions where record_id = {record} order by decision_id"
        )
        return [event for (event,) in rows]

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with self.warehouse.connect() as owner:
            return owner.execute(statement.encode()).fetchall()

    def query_as_owner(self, statement: str) -> None:
        """What no role of Sluice may do."""
        with self.warehouse.connect(autocommit=True) as owner, owner.transaction():
            owner.execute(statement.encode())

    def assert_reconciled(self) -> None:
        """Every count agrees: of artifacts, of the quarantine, and of the rows in staging."""
        assert_reconciled(self.warehouse)


def assert_reconciled(warehouse: Warehouse) -> None:
    nothing = dict.fromkeys(("run", "resource", "pipeline"))
    with warehouse.connect(Role.REVIEWER) as reviewer, reviewer.cursor() as cursor:
        cursor.execute(query("quarantine_summary"), nothing)
        names = [column.name for column in cursor.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    for row in rows:
        assert row["unreconciled"] == 0, row
        assert row["fetched"] == row["loaded"] + row["quarantined"], row
        decided = row["held"] + row["retried"] + row["discarded"] + row["released"]
        assert row["quarantined"] == decided, row
    with warehouse.connect() as owner:
        adopted = owner.execute(
            "select artifact_id, resource, loaded, fetched, quarantined from ops.artifacts "
            "where state = 'adopted'"
        ).fetchall()
        for artifact_id, resource, loaded, fetched, quarantined in adopted:
            assert fetched == loaded + quarantined
            table = resource.replace(".", "__")
            staged = owner.execute(
                f"select count(*) from staging.{table} where _artifact_id = %s".encode(),
                [artifact_id],
            ).fetchone()
            assert staged == (loaded,), (artifact_id, resource)

"""A run of Sluice in the middle of its stages, and one stage of it that can be run again and again."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingestion.artifacts import measure_artifacts
from ingestion.partitions import Partition
from ingestion.sources import get_resource
from orchestration.code import read_code
from orchestration.identity import RunId
from orchestration.model import (
    PartitionState,
    Run,
    RunPartition,
    StageName,
    StageStatus,
    TriggerKind,
)
from orchestration.pipelines.files import get_pipeline
from orchestration.runs.budget import Budget
from orchestration.runs.checkpoints import read_checkpoints
from orchestration.runs.leases import Heartbeat, acquire
from orchestration.runs.stage_runner import StageRunner
from orchestration.runs.state import finish_stage, start_stage
from orchestration.settings import Settings
from orchestration.stages.base import Claim, StageContext, UnitDone, UnitResult
from orchestration.stages.extract import ExtractStage
from orchestration.warehouse.artifacts import find_artifacts, intact_artifacts
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import run_lease
from orchestration.warehouse.setup import set_up

ROWS = 216
RESOURCE = get_resource("flights.weather")
ARTIFACT = "a_bench"
RUN = RunId("r_0123456789abcdef")

_ROWS = """
insert into staging.flights__weather (origin, year, month, day, hour, temp, dewp, humid, wind_dir,
    wind_speed, wind_gust, precip, pressure, visib, time_hour, _artifact_id, _partition, _run_id,
    _source_ref)
select (array['EWR', 'JFK', 'LGA'])[1 + n %% 3], 2013, 1, 1 + n / 72, n / 3 %% 24, 30 + n %% 40, 20.12,
    50.5 + n %% 30, n %% 36 * 10, 9.20624, null, 0, 1012.5, 10,
    timestamptz '2013-01-01 05:00Z' + n / 3 * interval '1 hour', %(artifact)s, 'p', %(run)s,
    '/v1/weather?date=2013-01-01&page=1#' || n
from generate_series(0, %(rows)s - 1) n
"""
_RUN = """
insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, as_of,
    correlation_id, workflow_id, status)
values (%s, 'flights', 'manual', 'benchmark', 'c', '{}', now(), 'c', 'w', 'running')
"""
_ADOPTED = """
insert into ops.artifacts (artifact_id, pipeline, resource, window_name, revision, partition, run_id,
    lease_name, fence, state, fetched, loaded, quarantined, checksum, schema_version, fetched_at,
    adopted_at)
values (%(artifact)s, 'flights', 'flights.weather', '2013-01-01', 1, 'p', %(run)s, 'l', 1, 'adopted',
    %(rows)s, %(rows)s, 0, %(checksum)s, '1', now(), now())
"""


class AdoptedStage(ExtractStage):
    """Extraction whose partitions were adopted before: what is left is the frame around the work."""

    def execute(self, context: StageContext, claims: Sequence[Claim]) -> Iterator[UnitResult]:
        [artifact] = find_artifacts(context.connection, [ARTIFACT]).values()
        assert intact_artifacts(context.sessions.get(Role.EXTRACTOR), [artifact]) == {ARTIFACT}
        for claim in claims:
            yield UnitDone(
                claim.unit, output_ref=artifact.artifact_id, checksum=artifact.checksum,
                result={"fetched": ROWS, "loaded": ROWS, "quarantined": 0},
            )  # fmt: skip


class Silent:
    def update(self, *_: Any, **__: Any) -> None:
        """Shows nothing."""


class Sluice:
    """A run in the middle of its stages, and two ways to measure one of them."""

    def __init__(self, warehouse: Warehouse, folder: Path) -> None:
        set_up(warehouse)
        facts: dict[str, Any] = {"artifact": ARTIFACT, "run": RUN, "rows": ROWS}
        with warehouse.connect(autocommit=True) as owner:
            owner.execute(_ROWS, facts)
            owner.execute("analyze staging.flights__weather")
            checksum = measure_artifacts(owner, RESOURCE, [ARTIFACT])[ARTIFACT].checksum
            owner.execute(_ADOPTED, facts | {"checksum": checksum})
            owner.execute(_RUN, [RUN])
        settings = Settings(home=folder)
        pipeline = get_pipeline(settings.pipelines_dir, "flights")
        connection = warehouse.connect(Role.RUNNER, autocommit=True)
        lease = acquire(connection, run_lease(RUN), wait_s=0)
        self.heartbeat = Heartbeat(warehouse)
        self.context = StageContext(
            settings=settings,
            warehouse=warehouse,
            pipeline=pipeline,
            run=Run(
                run_id=RUN, pipeline="flights", trigger_kind=TriggerKind.MANUAL,
                trigger_key="benchmark", code_id="c", code_commit=None, code_dirty=None,
                publish=False, as_of=datetime.now(UTC), correlation_id="c", workflow_id="w",
                status="running", outcome=None, version_id=None,
            ),
            code=read_code(settings.project_dir, pipeline),
            connection=connection,
            run_lease=lease,
            progress=Silent(),
            check_leases=self.heartbeat.check,
            read_checkpoints=lambda units: read_checkpoints(connection, units),
            budget=Budget(0),
            partitions=[],
            work_dir=folder,
        )  # fmt: skip

    def stage(self, number: int) -> None:
        """One stage over one partition: done the first time, found the second time."""
        partition = Partition("flights.weather", "2013-01-01", number + 1)
        self.context.partitions = [RunPartition(partition, PartitionState.REQUESTED, None)]
        runner = StageRunner(
            self.context, AdoptedStage(), {self.context.run_lease.name: self.context.run_lease},
            self.heartbeat,
        )  # fmt: skip
        report = runner.run()
        assert len(report.finished) == 1, report

    def stage_with_row(self, number: int) -> None:
        """The same with its line in ops.run_stages, begun and ended."""
        lease = self.context.run_lease
        start_stage(self.context.connection, RUN, StageName.EXTRACT, 1, lease)
        self.stage(number)
        finish_stage(
            self.context.connection, RUN, StageName.EXTRACT, lease, StageStatus.SUCCEEDED,
            attempts=1, input_ref="p", output_ref=ARTIFACT,
        )  # fmt: skip

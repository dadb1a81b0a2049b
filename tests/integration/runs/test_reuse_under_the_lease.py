"""What retention may have dropped between a look and a lease is looked for again under the lease."""

from datetime import UTC, datetime
from typing import Any

import pytest
from late_work import PARTITION, RUN, begin_work, stage_context
from retention_rows import add_run, change

from orchestration.model import PartitionState, RunPartition, TriggerKind
from orchestration.runs.drive import Drive
from orchestration.runs.leases import Heartbeat
from orchestration.triggers.accept import trigger_key
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, build_lease


def test_partitions_that_went_before_the_build_lease_was_taken_are_extracted_again(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_lease = begin_work(warehouse)
    stages: list[str] = []
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        context = stage_context(warehouse, runner, run_lease)
        context.partitions = [RunPartition(PARTITION, PartitionState.REQUESTED, None)]
        drive = Drive(context, Heartbeat(warehouse), repeats_finished=False)

        def run(stage: Any, *_: Lease) -> None:
            stages.append(stage.name)
            if len(stages) == 2:
                change(
                    warehouse,
                    "update ops.artifacts set state = 'adopted', fetched = 1, loaded = 1, "
                    "quarantined = 0, checksum = '1', adopted_at = %s",
                    datetime.now(UTC),
                )

        monkeypatch.setattr(drive, "_run", run)
        lease = drive._extract()
    assert stages == ["extract", "extract"]
    assert lease.name == build_lease("flights")
    assert context.run.run_id == RUN


def test_the_number_of_a_refresh_grows_also_when_earlier_ones_are_forgotten(
    warehouse: Warehouse,
) -> None:
    request = RunRequest("flights", ["2013-01-01"], TriggerKind.MANUAL, refresh=True)
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        key = "2013-01-01..2013-01-01+refresh"
        assert trigger_key(runner, request) == f"{key}-1"
        with warehouse.connect() as owner:
            for number in (1, 2, 10):
                add_run(owner, f"{key}-{number}")
        assert trigger_key(runner, request) == f"{key}-11"
        change(warehouse, f"delete from ops.runs where trigger_key <> '{key}-10'")
        assert trigger_key(runner, request) == f"{key}-11"

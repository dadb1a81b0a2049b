"""A backfill is planned without a trace, gives way to what runs routinely, and shares its places."""

from collections.abc import Iterator

import psycopg
import pytest
from inbox import CODE

from ingestion.partitions import day_windows
from orchestration.model import StageName, TriggerKind
from orchestration.pipelines.files import get_pipeline
from orchestration.runs.leases import try_acquire
from orchestration.settings import Settings
from orchestration.triggers.accept import accept
from orchestration.triggers.backfill import (
    load_request,
    plan_backfill,
    publish_request,
    routine_run,
    slot_names,
)
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.connections import Role, Warehouse

PIPELINE = get_pipeline(Settings().pipelines_dir, "flights")
DAYS = day_windows("2013-01-30..2013-02-03")


@pytest.fixture
def runner(warehouse: Warehouse) -> Iterator[psycopg.Connection]:
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        yield connection


def test_a_plan_covers_every_day_once_and_writes_nothing(runner: psycopg.Connection) -> None:
    plan = plan_backfill(runner, PIPELINE, CODE, DAYS, 2)
    assert [chunk.name for chunk in plan] == [
        "2013-01-30..2013-01-31",
        "2013-02-01..2013-02-02",
        "2013-02-03",
    ]
    assert [day for chunk in plan for day in chunk.request.days] == DAYS
    # Two resources by day, and three snapshots with each.
    assert [(chunk.partitions, chunk.loaded, chunk.is_done) for chunk in plan] == [
        (7, 0, False), (7, 0, False), (5, 0, False),
    ]  # fmt: skip
    assert runner.execute("select count(*) from ops.runs").fetchone() == (0,)


def test_chunks_load_and_only_the_last_run_publishes(runner: psycopg.Connection) -> None:
    load, publish = load_request("flights", DAYS), publish_request("flights", DAYS)
    assert (load.publish, load.stop_after) == (False, StageName.EXTRACT)
    assert (publish.publish, publish.stop_after) == (True, None)
    first, again = (accept(runner, load, PIPELINE, CODE) for _ in range(2))
    assert (first.is_new, again.is_new) == (True, False)
    assert first.run.run_id == again.run.run_id
    assert first.run.trigger_kind is TriggerKind.BACKFILL
    assert accept(runner, publish, PIPELINE, CODE).run.run_id != first.run.run_id


def test_a_run_that_somebody_works_on_goes_first_and_a_backfill_does_not(
    warehouse: Warehouse, runner: psycopg.Connection
) -> None:
    accept(runner, load_request("flights", DAYS), PIPELINE, CODE)
    assert routine_run(runner, "flights") is None
    run = accept(runner, RunRequest("flights", DAYS[:1]), PIPELINE, CODE).run
    assert routine_run(runner, "flights") == run.run_id
    assert routine_run(runner, "other") is None
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("update ops.runs set accepted_at = accepted_at - interval '1 hour'")
    # Nobody has it: it is for `sluice recover`, and waiting for it would be for ever.
    assert routine_run(runner, "flights") is None
    assert try_acquire(runner, f"run/{run.run_id}") is not None
    assert routine_run(runner, "flights") == run.run_id


def test_there_are_as_many_places_as_asked_for(runner: psycopg.Connection) -> None:
    names = slot_names("flights", 2)
    assert [try_acquire(runner, name) is not None for name in names] == [True, True]
    assert [try_acquire(runner, name) for name in names] == [None, None]
    assert slot_names("flights", 3)[:2] == names

"""A worker whose lease went to another one changes nothing, whatever it tries to write."""

from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest
from late_work import (
    FETCHED,
    PARTITION,
    RELATION,
    RUN,
    SLICES,
    UNIT,
    VERSION,
    begin_work,
    everything,
    hand_over,
    stage_context,
)

from ingestion.sources import get_resource
from orchestration.errors import LeaseLost, SourceFailure
from orchestration.identity import ArtifactId, ManifestId
from orchestration.model import Outcome, PartitionState, StageName, StageStatus
from orchestration.publication.flip import publish_version
from orchestration.publication.slots import prepare_slot
from orchestration.runs.checkpoints import begin_attempts, record_failure, record_success
from orchestration.runs.state import (
    finish_run,
    finish_stage,
    mark_partitions,
    note_stage,
    start_run,
    start_stage,
)
from orchestration.stages import gate, validate
from orchestration.stages.acceptance import Finding
from orchestration.stages.base import Claim
from orchestration.stages.notify import NotifyStage
from orchestration.stages.policies import leave_out
from orchestration.stages.suites import record_verdicts
from orchestration.warehouse import artifacts, store
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease
from orchestration.warehouse.judgements import Judged, Rule, record_extremes, record_judgements
from orchestration.warehouse.manifests import Manifest, record_manifest
from orchestration.warehouse.segments.independence import record_check
from orchestration.warehouse.versions import VersionRecord, create_version_views, record_version
from orchestration.warehouse.waivers import Breach, record_breaches

BREACH = Breach("suite", "e", "e", "Because.", "critical", "d" * 64, None, "d" * 64, None)


@pytest.fixture
def late(warehouse: Warehouse) -> Lease:
    """A lease under which work was begun, and which another worker has taken over since."""
    lease = begin_work(warehouse)
    hand_over(warehouse, lease)
    return lease


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
    "note_stage": (
        Role.RUNNER,
        lambda _, c, lease: note_stage(c, RUN, StageName.GATE, 4, lease, StageStatus.SUCCEEDED),
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
            c, Manifest(ManifestId("m_" + "1" * 16), "flights", ()), RUN, lease
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
        lambda _, c, lease: store.register_loading(
            c, [replace(RELATION, relation_name="dim_carrier__later")], run_id=RUN, lease=lease
        ),
    ),
    "abandon_earlier": (
        Role.TRANSFORMER,
        lambda _, c, lease: store.abandon_earlier(c, lease),
    ),
    "adopt_relations": (
        Role.TRANSFORMER,
        lambda _, c, lease: store.adopt_relations(c, [RELATION], lease),
    ),
    "record_check": (
        Role.TRANSFORMER,
        lambda _, c, lease: record_check(c, "f" * 64, "fct_flights", ["2013-01-01"], lease),
    ),
    "record_version": (
        Role.TRANSFORMER,
        lambda _, c, lease: record_version(
            c, VersionRecord("v_" + "1" * 16, "flights", "m_" + "0" * 16, RUN, "c"), [], lease
        ),
    ),
    "create_version_views": (
        Role.TRANSFORMER,
        lambda _, c, lease: create_version_views(c, "v_" + "1" * 16, {}, lease),
    ),
    "record_verdicts": (
        Role.RUNNER,
        lambda _, c, lease: record_verdicts(
            c,
            lease,
            [("flights.airlines", "suite", "h", {"status": "passed"})],
            pipeline="flights",
            run_id=RUN,
            stage=StageName.VALIDATE,
        ),
    ),
    "record_judgements": (
        Role.RUNNER,
        lambda _, c, lease: record_judgements(
            c, lease, "flights", VERSION, [Judged(Rule("suite", "d" * 64), "passed", None, 1)]
        ),
    ),
    "record_breaches": (
        Role.RUNNER,
        lambda _, c, lease: record_breaches(c, lease, VERSION, RUN, [BREACH]),
    ),
    "leave_out": (Role.RUNNER, lambda _, c, lease: leave_out(c, lease, VERSION, "d" * 64)),
    "record_extremes": (
        Role.RUNNER,
        lambda _, c, lease: record_extremes(c, lease, SLICES, "seen_at", ["2013-01-01"]),
    ),
    "judge_partition": (
        Role.RUNNER,
        lambda w, c, lease: validate._record(
            c,
            stage_context(w, c, lease),
            artifacts.find_artifacts(c, ["a_late"])[ArtifactId("a_late")],
            [Finding("min_records", "too few")],
            "d" * 64,
            lease,
        ),
    ),
    "judge_version": (
        Role.RUNNER,
        lambda w, c, lease: gate._settle(stage_context(w, c, lease), VERSION, lease, passed=False),
    ),
    "mark_delivered": (
        Role.RUNNER,
        lambda w, c, lease: list(
            NotifyStage().execute(stage_context(w, c, lease), [Claim(UNIT, lease, 1)])
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

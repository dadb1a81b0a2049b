"""A prune that dies, or loses its lease, leaves a warehouse from which the next one goes on."""

import os
import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from late_work import Silence, everything, hand_over
from retention_history import VERSIONS, make_history
from retention_rows import ask, store_objects
from sabotage import Kind, Sabotage
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.errors import LeaseLost
from orchestration.faultpoints import FaultPoint
from orchestration.pipelines.spec import Retention
from orchestration.publication.retention.drop import PipelineDrop
from orchestration.publication.retention.drop_store import StoreDrop
from orchestration.publication.retention.plan import PipelinePlan, plan_pipeline, plan_store
from orchestration.publication.retention.read import read_pipeline, read_store
from orchestration.publication.retention.report import Pruned
from orchestration.runs.leases import try_acquire
from orchestration.runs.prune import plan_prune
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.embedded import EmbeddedServer
from orchestration.warehouse.fence import Lease, build_lease

POINTS = [point for point in FaultPoint if point.startswith("prune.")]
# A process that is only paused goes on by itself: it is no failure.
FAILURES = [kind for kind in Kind if kind is not Kind.PAUSE]
MATRIX = [(point, kind) for point in POINTS for kind in FAILURES]
DICE = random.Random(os.environ.get("SLUICE_TEST_SEED", "sluice"))
SAMPLE = int(os.environ.get("SLUICE_TEST_MATRIX", "3"))
CHOSEN = MATRIX if len(MATRIX) <= SAMPLE else DICE.sample(MATRIX, SAMPLE)
POLICIES = {"flights": Retention()}

Fresh = Callable[[], Warehouse]


@pytest.fixture(scope="module")
def old_warehouse(server: EmbeddedServer, template: str) -> Iterator[Fresh]:
    """Makes a warehouse with a long history, as often as it is called."""
    names: list[str] = []

    def administer(statement: str) -> None:
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def clone(original: str) -> Warehouse:
        names.append(f"test_{secrets.token_hex(6)}")
        administer(f"create database {names[-1]} template {original} owner sluice_owner")
        return Warehouse(server.url(database=names[-1]))

    first = clone(template)
    make_history(first)
    yield lambda: clone(first.database)
    for name in names:
        administer(f"drop database {name} with (force)")


def leftovers(warehouse: Warehouse) -> dict[str, Any]:
    """All that a prune may touch, without the moments at which it did."""
    statements = {
        "versions": "select version_id, state from ops.versions",
        "models": "select version_id, model, relation_name from ops.version_models",
        "dropped": "select version_id, state, newest::text from ops.dropped_versions",
        "manifests": "select * from ops.manifest_artifacts",
        "artifacts": "select artifact_id, state, acceptance from ops.artifacts",
        "staged": "select _artifact_id, count(*) from staging.flights__weather group by 1",
        "relations": "select relation_name, state from ops.relations",
        "segments": "select view_name, segment_name, hidden from ops.view_segments",
        "partitions": "select relation_name, partition from ops.segment_partitions",
        "runs": "select run_id, status from ops.runs",
        "checkpoints": "select idempotency_key, status from ops.checkpoints",
        "attempts": "select idempotency_key, attempt, status from ops.attempts",
        "quarantine": "select record_id, decision, erased_at is not null, payload::text "
        "from quarantine.records",
        "alive": "select name from ops.leases where expires_at > clock_timestamp()",
    }
    seen = {name: sorted(ask(warehouse, text)) for name, text in statements.items()}
    seen["schemas"] = ask(
        warehouse, "select nspname from pg_namespace where nspname ~ '^v_' order by 1"
    )
    return seen | {"store": sorted(store_objects(warehouse))}


@pytest.fixture(scope="module")
def undisturbed(old_warehouse: Fresh) -> dict[str, Any]:
    warehouse = old_warehouse()
    from orchestration.runs.prune import Prune

    before = leftovers(warehouse)
    done = Prune(warehouse, POLICIES, Silence()).run()
    assert [item["version_id"] for item in done.versions] == VERSIONS[:4]
    assert done.artifacts
    assert done.relations
    after = leftovers(warehouse)
    assert {name for name in before if before[name] == after[name]} == {"alive"}
    return after


@pytest.mark.slow
@pytest.mark.parametrize(("point", "kind"), CHOSEN)
def test_a_prune_that_fails_anywhere_is_finished_by_the_next(
    point: FaultPoint,
    kind: Kind,
    undisturbed: dict[str, Any],
    old_warehouse: Fresh,
    server: EmbeddedServer,
    warm_process: WarmProcess,
    demo_server: DemoServer,
    tmp_path: Path,
) -> None:
    homes = [tmp_path / name for name in ("first", "second")]
    for home in homes:
        home.mkdir()
    sluice = WarmSluice(old_warehouse(), homes[0], demo_server, process=warm_process)
    sabotage = Sabotage(
        point, "", kind, sluice.warehouse.database, server.superuser_url("postgres"),
        str(server.home),
    )  # fmt: skip
    first = replace(sluice, sabotage=(sabotage,)).call("prune", "--json")
    assert (homes[0] / "struck").read_text().startswith(kind), first.stderr[-2000:]
    for version in VERSIONS[-7:]:
        [(relation,)] = ask(
            sluice.warehouse,
            "select relation_name from ops.version_models where version_id = %s and model = 'whole'",
            version,
        )
        assert ask(sluice.warehouse, f"select count(*) from store.{relation}") == [(1,)]
    replace(sluice, home=homes[1]).json("prune")
    assert leftovers(sluice.warehouse) == undisturbed


def test_the_prune_matrix_is_complete() -> None:
    print(f"{len(CHOSEN)} of {len(MATRIX)} combinations of fault point and failure")
    assert {point for point, _ in MATRIX} == set(POINTS)


def drop_from_pipeline(warehouse: Warehouse, lease: Lease, part: str) -> None:
    with (
        warehouse.connect(Role.RUNNER, autocommit=True) as runner,
        warehouse.connect(Role.EXTRACTOR, autocommit=True) as extractor,
    ):
        plan = plan_pipeline(read_pipeline(runner, "flights"), POLICIES["flights"])
        assert getattr(plan, part)
        alone = replace(PipelinePlan(pipeline="flights"), **{part: getattr(plan, part)})
        for _ in PipelineDrop(runner, extractor, lease, Pruned()).steps(alone):
            pass


def drop_from_store(warehouse: Warehouse, lease: Lease, part: str) -> None:
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        # As if the versions had been dropped before.
        facts = read_store(runner, POLICIES)
        plan = plan_store(replace(facts, schemas=("v_" + "f" * 16,)), VERSIONS[:4])
        alone = replace(plan, **{name: () for name in ("relations", "schemas") if name != part})
        for _ in StoreDrop(runner, runner, [lease], Pruned()).steps(alone):
            pass


PARTS = {
    **dict.fromkeys(
        ("versions", "manifests", "artifacts", "runs", "checkpoints"), drop_from_pipeline
    ),
    "relations": drop_from_store,
    "schemas": drop_from_store,
}


@pytest.mark.parametrize("part", PARTS)
def test_a_prune_that_lost_its_lease_drops_nothing(old_warehouse: Fresh, part: str) -> None:
    warehouse = old_warehouse()
    with warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        late = try_acquire(runner, build_lease("flights"))
    assert late is not None
    hand_over(warehouse, late)
    before = everything(warehouse)
    with pytest.raises(LeaseLost):
        PARTS[part](warehouse, late, part)
    assert everything(warehouse) == before


def test_the_plan_of_a_prune_changes_nothing(old_warehouse: Fresh) -> None:
    warehouse = old_warehouse()
    before = everything(warehouse)
    plan = plan_prune(warehouse, POLICIES)
    assert [version.version_id for version in plan.pipelines[0].versions] == VERSIONS[:4]
    assert everything(warehouse) == before

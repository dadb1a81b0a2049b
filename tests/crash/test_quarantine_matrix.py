"""A reviewer's retry that fails at any point: the same command finishes it, and nothing shows it."""

import json
import os
import random
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import Sluice
from observation import REQUEST, compare, observe, unexplained
from psycopg import sql
from quarantine_bench import assert_reconciled
from sabotage import REVIEWERS, SHARED, Kind, Sabotage
from warm import WarmProcess, WarmSluice

from ingestion.demo_api.server import DemoServer
from orchestration.faultpoints import FaultPoint
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

STAGES = ("initialize", "extract", "validate", "notify")
# What a retry reaches without publishing; it fetches nothing, and builds nothing.
POINTS = [
    point
    for point in FaultPoint
    if point.startswith(("run.", "stage.", "extract.", "validate.", "quarantine."))
    and point not in (FaultPoint.EXTRACT_AFTER_SPOOL, FaultPoint.QUARANTINE_AFTER_DECISION)
]
MATRIX = [
    (point, stage, kind)
    for point in POINTS
    for stage in (STAGES if point in SHARED else ("",))
    for kind in (Kind.SIGKILL, Kind.EXCEPTION, Kind.CUT, Kind.RESTART)
]
# `make test` draws a sample, another one for another SLUICE_TEST_SEED; `make test-crash` does all.
DICE = random.Random(os.environ.get("SLUICE_TEST_SEED", "sluice"))
SAMPLE = int(os.environ.get("SLUICE_TEST_MATRIX", "3"))
CHOSEN = MATRIX if len(MATRIX) <= SAMPLE else DICE.sample(MATRIX, SAMPLE)
QUARANTINE = {
    "records": "select record_id, decision, decision_reason, correction::text, decided_by "
    "from quarantine.records",
    "retries": "select partition, status from quarantine.retries",
    "members": "select record_id, correction::text, outcome from quarantine.retry_records",
    "decisions": "select record_id, event, reason, detail from quarantine.decisions",
    "actions": "select action, target, reason, actor from ops.operator_actions",
}

Clone = Callable[[], WarmSluice]


@pytest.fixture(scope="module")
def clone(
    server: EmbeddedServer,
    template: str,
    demo_server: DemoServer,
    warm_process: WarmProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Clone]:
    """Copies of a warehouse in which two days are published and one record is quarantined."""
    names = [f"test_{secrets.token_hex(6)}"]

    def copy(origin: str, name: str) -> WarmSluice:
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute(
                sql.SQL("create database {} template {} owner sluice_owner").format(
                    sql.Identifier(name), sql.Identifier(origin)
                )
            )
        warehouse = Warehouse(server.url(database=name))
        home = tmp_path_factory.mktemp("home")
        return WarmSluice(warehouse, home, demo_server, process=warm_process)

    def drop(name: str) -> None:
        with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
            connection.execute(
                sql.SQL("drop database {} with (force)").format(sql.Identifier(name))
            )

    demo_server.clear()
    first = copy(template, names[0])
    project = first.copy_project(tmp_path_factory.mktemp("project") / "copy").project
    assert replace(first, project=project).json(*REQUEST)["outcome"] == "published"

    def make() -> WarmSluice:
        while len(names) > 1:
            drop(names.pop())
        names.append(f"test_{secrets.token_hex(6)}")
        return replace(copy(names[0], names[-1]), project=project)

    yield make
    while names:
        drop(names.pop())


def retry(home: Path) -> tuple[str, ...]:
    payload = home / "payload.json"
    payload.write_text(json.dumps({"wind_speed": 10.36}))
    return (
        *("quarantine", "retry", "record-1", "--payload", str(payload)),
        *("--reason", "mistyped"),
    )


def observed(sluice: Sluice) -> dict[str, Any]:
    seen = {
        f"quarantine.{name}": sorted(map(repr, sluice.query(statement)))
        for name, statement in QUARANTINE.items()
    }
    return observe(sluice) | seen


@pytest.fixture(scope="module")
def undisturbed_retry(clone: Clone) -> dict[str, Any]:
    sluice = clone()
    [record] = sluice.json(*retry(sluice.home))["records"]
    assert (record["result"], record["partition"]) == ("loaded", "flights.weather/2013-02-12@2")
    return observed(sluice)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "stage", "kind"), CHOSEN)
def test_a_retry_that_fails_at_any_point_is_finished_by_the_same_command(
    point: FaultPoint,
    stage: str,
    kind: Kind,
    undisturbed_retry: dict[str, Any],
    clone: Clone,
    server: EmbeddedServer,
    tmp_path: Path,
) -> None:
    sluice = clone()
    sabotage = Sabotage(
        point, stage, kind, sluice.warehouse.database, server.superuser_url("postgres"),
        str(server.home),
    )  # fmt: skip
    first = replace(sluice, sabotage=(sabotage,)).call(*retry(sluice.home), "--json")
    assert (sluice.home / "struck").read_text().startswith(kind), first.stderr[-2000:]
    assert_reconciled(sluice.warehouse)
    [record] = replace(sluice, home=tmp_path).json(*retry(tmp_path))["records"]
    assert record["result"] == "loaded"
    assert_reconciled(sluice.warehouse)
    found = unexplained(compare(undisturbed_retry, observed(sluice)), first.returncode)
    assert found == {}, first.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Kind.SIGKILL, Kind.CUT])
def test_a_decision_whose_answer_was_lost_is_made_once(
    kind: Kind, clone: Clone, server: EmbeddedServer
) -> None:
    sluice = clone()
    command = ("quarantine", "discard", "record-1", "--reason", "beyond repair")
    sabotage = Sabotage(
        FaultPoint.QUARANTINE_AFTER_DECISION, "", kind, sluice.warehouse.database,
        server.superuser_url("postgres"), str(server.home),
    )  # fmt: skip
    replace(sluice, sabotage=(sabotage,)).call(*command)
    assert (sluice.home / "struck").read_text().startswith(kind)
    [record] = sluice.json(*command)["records"]
    assert (record["decision"], record["remark"]) == ("discarded", "it was discarded before")
    assert sluice.query("select count(*) from ops.operator_actions") == [(1,)]
    assert_reconciled(sluice.warehouse)


def test_every_point_of_reviewers_is_struck() -> None:
    print(f"{len(CHOSEN)} of {len(MATRIX)} combinations of fault point and failure")
    struck = {point for point, _, _ in MATRIX} | {FaultPoint.QUARANTINE_AFTER_DECISION}
    assert struck >= REVIEWERS

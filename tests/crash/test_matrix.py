"""Every fault point times every kind of failure: after resuming, nothing shows that it happened."""

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from observation import REQUEST, STAGES, differences, unexplained
from sabotage import SHARED, Kind, Sabotage
from warm import WarmSluice

from orchestration.faultpoints import FaultPoint
from orchestration.warehouse.embedded import EmbeddedServer

# What is no run has its own tests: test_prune.py, test_pins.py, test_quarantine_matrix.py,
# test_dispatch.py.
NO_RUN = ("prune.", "pin.", "quarantine.", "dispatch.")
POINTS = [point for point in FaultPoint if not point.startswith(NO_RUN)]
MATRIX = [
    (point, stage, kind)
    for point in POINTS
    for stage in (STAGES if point in SHARED else [""])
    # A process that is only paused goes on by itself; test_paused and test_two_publishers wake them.
    for kind in (Kind.SIGKILL, Kind.EXCEPTION, Kind.CUT, Kind.RESTART)
]
# `make test` draws a sample, another one for another SLUICE_TEST_SEED; `make test-crash` does all.
DICE = random.Random(os.environ.get("SLUICE_TEST_SEED", "sluice"))
SAMPLE = int(os.environ.get("SLUICE_TEST_MATRIX", "3"))
CHOSEN = MATRIX if len(MATRIX) <= SAMPLE else DICE.sample(MATRIX, SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize(("point", "stage", "kind"), CHOSEN)
def test_a_failure_at_any_point_leaves_no_trace_after_resuming(
    point: FaultPoint,
    stage: str,
    kind: Kind,
    undisturbed: dict[str, Any],
    fresh_sluice: Callable[[], WarmSluice],
    server: EmbeddedServer,
    tmp_path: Path,
) -> None:
    sluice = fresh_sluice()
    # What dbt says of the project is no part of the run; reading it anew each time costs as much.
    sluice.extra["SLUICE_CACHE_DIR"] = str(tmp_path.parent / "cache")
    sabotage = Sabotage(
        point, stage, kind, sluice.warehouse.database, server.superuser_url("postgres"),
        str(server.home),
    )  # fmt: skip
    first = replace(sluice, sabotage=(sabotage,)).call(*REQUEST, "--json")
    assert (sluice.home / "struck").read_text().startswith(kind), first.stderr[-2000:]
    last = replace(sluice, home=tmp_path).json(*REQUEST)
    assert last["outcome"] in {"published", "unchanged"}
    found = unexplained(differences(sluice, undisturbed), first.returncode)
    assert found == {}, first.stderr[-3000:]


def test_the_matrix_is_complete() -> None:
    print(f"{len(CHOSEN)} of {len(MATRIX)} combinations of fault point and failure")
    assert {point for point, _, _ in MATRIX} == set(POINTS)

"""Runs that are killed at chosen and at random moments end as if nothing had happened to them."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import CACHE, Moment, Sluice
from observation import REQUEST, STAGES, differences, observe

# How many runs are killed at random, and what repeats them. Every worker must draw the same.
RUNS = int(os.environ.get("SLUICE_TEST_RUNS", "2"))
SEED = os.environ.get("SLUICE_TEST_SEED", "sluice")


def move_to_another_machine(sluice: Sluice) -> None:
    """Nobody can see any more that the holders of the leases are dead: they have to expire."""
    with sluice.warehouse.connect(autocommit=True) as connection:
        connection.execute(
            "update ops.leases set holder = 'elsewhere|1|1' where holder is not null"
        )


@pytest.fixture(scope="module")
def undisturbed(fresh_sluice: Callable[[], Sluice]) -> tuple[dict[str, Any], dict[str, float]]:
    """(what an undisturbed run leaves behind, how many seconds each of its stages took)."""
    sluice = fresh_sluice()
    done = sluice.json(*REQUEST)
    assert done["outcome"] == "published"
    assert done["records"]["quarantined"] == 1
    seen = observe(sluice)
    assert seen["unfinished"] == seen["still_loading"] == seen["unknown_in_store"] == []
    assert len(seen["publications"]) == 1
    return seen, {stage["stage"]: stage["duration_s"] for stage in done["stages"]}


@pytest.mark.slow
def test_a_run_killed_once_in_every_stage_ends_like_an_undisturbed_one(
    undisturbed: tuple[dict[str, Any], dict[str, float]],
    fresh_sluice: Callable[[], Sluice],
    tmp_path: Path,
) -> None:
    expected, durations = undisturbed
    sluice = fresh_sluice()
    homes = [sluice, sluice.at(tmp_path / "other")]
    killed = []
    for number, stage in enumerate(STAGES):
        delay = random.uniform(0, 0.8 * durations[stage])
        at_home = homes[number % 2]
        killed.append((stage, round(delay, 2), at_home.kill_at(Moment(delay, stage), *REQUEST)))
        if stage == "extract":
            move_to_another_machine(sluice)
    last = sluice.at(tmp_path / "third").json(*REQUEST)
    assert last["outcome"] in {"published", "unchanged"}
    assert [home.json(*REQUEST)["outcome"] for home in homes] == ["unchanged"] * 2
    assert [list((home.home / "work").iterdir()) for home in homes] == [[], []]
    assert all(was_killed for _, _, was_killed in killed[:-1]), killed
    assert differences(sluice, expected) == {}, killed


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(RUNS))
def test_a_run_killed_at_random_moments_ends_like_an_undisturbed_one(
    number: int,
    undisturbed: tuple[dict[str, Any], dict[str, float]],
    fresh_sluice: Callable[[], Sluice],
    tmp_path: Path,
) -> None:
    expected, durations = undisturbed
    dice = random.Random(f"{SEED} {number}")
    sluice = fresh_sluice()
    homes = [sluice.at(tmp_path / name) for name in ("first", "second")]
    if dice.random() < 0.75:
        # The others ask dbt anew, and may be killed while they keep its answer.
        for home in homes:
            del home.extra[CACHE]
    story = []
    for _ in range(dice.randint(1, 3)):
        moment, home = _any_moment(dice, durations), dice.choice(homes)
        story.append((moment, home.home.name, home.kill_at(moment, *REQUEST)))
        if dice.random() < 0.25:
            move_to_another_machine(sluice)
    done = dice.choice(homes).call(*REQUEST, "--json")
    print(f"run {number} of {RUNS}, SLUICE_TEST_SEED={SEED}: {story} -> exit {done.returncode}")
    assert done.returncode == 0, (story, done.stderr[-3000:])
    assert differences(sluice, expected) == {}, story


def _any_moment(dice: random.Random, durations: dict[str, float]) -> Moment:
    stage = dice.choice([None, *STAGES, "extract", "validate", "transform", "gate"])
    if stage is None:
        return Moment(dice.uniform(0.3, 3.0))
    event = dice.choice(["stage started"] * 4 + ["stage ended"])
    return Moment(
        dice.uniform(0, durations[stage] if event == "stage started" else 0.3), stage, event
    )

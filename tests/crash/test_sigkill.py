"""Runs that are killed at chosen and at random moments end as if nothing had happened to them."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Moment, Sluice
from observation import REQUEST, STAGES, differences, observe


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
def test_a_run_killed_at_random_moments_ends_like_an_undisturbed_one(
    undisturbed: tuple[dict[str, Any], dict[str, float]],
    fresh_sluice: Callable[[], Sluice],
    tmp_path: Path,
) -> None:
    """`SLUICE_TEST_KILLS` says how many kills, `SLUICE_TEST_SEED` repeats a campaign."""
    expected, durations = undisturbed
    wanted = int(os.environ.get("SLUICE_TEST_KILLS", "2"))
    seed = os.environ.get("SLUICE_TEST_SEED") or str(random.randrange(10**9))
    dice = random.Random(seed)
    kills, scenarios, bad = 0, 0, []
    while kills < wanted:
        scenarios += 1
        sluice = fresh_sluice()
        story = []
        for _ in range(min(dice.randint(1, 3), wanted - kills)):
            moment = _any_moment(dice, durations)
            home = sluice.at(tmp_path / f"home-{scenarios}-{dice.randrange(2)}")
            killed = home.kill_at(moment, *REQUEST)
            story.append((moment, home.home.name, killed))
            kills += killed
            if dice.random() < 0.25:
                move_to_another_machine(sluice)
        done = sluice.at(tmp_path / f"home-{scenarios}-{dice.randrange(2)}").call(
            *REQUEST, "--json"
        )
        found = differences(sluice, expected) if done.returncode == 0 else done.stderr[-3000:]
        print(
            f"scenario {scenarios}: {story} -> exit {done.returncode}, {found or 'no difference'}"
        )
        if found:
            bad.append((story, found))
    print(f"{kills} kills in {scenarios} runs, {len(bad)} differ (seed {seed})")
    assert bad == [], f"SLUICE_TEST_SEED={seed}"


def _any_moment(dice: random.Random, durations: dict[str, float]) -> Moment:
    stage = dice.choice([None, *STAGES, "extract", "validate", "transform", "gate"])
    if stage is None:
        return Moment(dice.uniform(0.3, 3.0))
    event = dice.choice(["stage started"] * 4 + ["stage ended"])
    return Moment(
        dice.uniform(0, durations[stage] if event == "stage started" else 0.3), stage, event
    )

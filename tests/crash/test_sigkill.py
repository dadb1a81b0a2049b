"""Runs that are killed at chosen and at random moments end as if nothing had happened to them."""

import hashlib
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Moment, Sluice

REQUEST = (
    *("run", "--pipeline", "flights", "--partitions", "2013-02-11..2013-02-12"),
    # The moment decides the gate's key; the same one makes the keys of two runs comparable.
    *("--as-of", "2013-03-01T00:00:00+00:00"),
)
STAGES = ["initialize", "extract", "validate", "transform", "gate", "publish", "notify"]

OBSERVATIONS = {
    "runs": "select run_id, status, outcome, failure, version_id from ops.runs",
    "run_partitions": "select resource, window_name, revision, state from ops.run_partitions",
    "run_stages": "select stage, position, idempotency_key, input_ref from ops.run_stages",
    "checkpoints": "select idempotency_key, stage, step, source_partition, status "
    "from ops.checkpoints where step = ''",
    "unfinished": "select stage, status from ops.run_stages where status not in ('succeeded', 'reused') "
    "union all select 'attempt', status from ops.attempts where status not in "
    "('succeeded', 'failed', 'lost') "
    "union all select name, holder from ops.leases where expires_at > clock_timestamp()",
    "artifacts": "select partition, fetched, loaded, quarantined, checksum, schema_version, "
    "acceptance, acceptance_reason from ops.artifacts where state = 'adopted'",
    "still_loading": "select artifact_id from ops.artifacts where state = 'loading' "
    "union all select relation_name from ops.relations where state = 'loading'",
    "quarantined_records": "select partition, source_ref, rule, field, error, payload::text "
    "from quarantine.records",
    "quarantined_partitions": "select partition, rule, error from quarantine.partitions",
    "manifests": "select m.manifest_id, e.resource, e.window_name, a.partition, a.checksum "
    "from ops.manifests m join ops.manifest_artifacts e using (manifest_id) "
    "join ops.artifacts a using (artifact_id)",
    "relations": "select model, content_key, kind, row_count, columns::text from ops.relations "
    "where state = 'adopted'",
    "unknown_in_store": "select relname from pg_class where relnamespace = 'store'::regnamespace "
    "and relkind in ('r', 'v') and relname not in "
    "(select relation_name from ops.relations where state = 'adopted')",
    "versions": "select version_id, pipeline, manifest_id, code_id, degraded, state from ops.versions",
    "version_models": "select version_id, model, content_key, published, parents, resources "
    "from ops.version_models",
    "verdicts": "select distinct stage, subject, suite, suite_hash, verdict from ops.verdicts",
    "publications": "select pipeline, version_id, previous_version_id, kind, slot, run_id "
    "from ops.publications",
    "messages": "select kind, owner, delivered_at is not null from ops.outbox",
    "version_schemas": "select nspname from pg_namespace where nspname like 'v\\_%'",
}


def observe(sluice: Sluice) -> dict[str, Any]:
    """All that must be the same however often a run was interrupted."""
    seen: dict[str, Any] = {
        name: sorted(map(repr, sluice.query(statement))) for name, statement in OBSERVATIONS.items()
    }
    for model, rows in sluice.everything_published().items():
        seen[f"analytics.{model}"] = (len(rows), hashlib.sha256(repr(rows).encode()).hexdigest())
    tables = sluice.query(
        "select relname from pg_class where relnamespace = 'staging'::regnamespace "
        "and relkind = 'r' and relname like 'flights\\_\\_%'"
    )
    for (table,) in tables:
        adopted = "_artifact_id in (select artifact_id from ops.artifacts where state = 'adopted')"
        [seen[f"staging.{table}"]] = sluice.query(
            f"select count(*) filter (where {adopted}), count(*) filter (where not {adopted}) "
            f"from staging.{table}"
        )
    return seen


def differences(sluice: Sluice, undisturbed: dict[str, Any]) -> dict[str, Any]:
    """name → (what is missing, what is too much)."""
    seen = observe(sluice)
    return {
        name: (
            _without(undisturbed.get(name, ()), seen.get(name, ())),
            _without(seen.get(name, ()), undisturbed.get(name, ())),
        )
        for name in sorted({*undisturbed, *seen})
        if undisturbed.get(name) != seen.get(name)
    }


def _without(these: Any, those: Any) -> list[Any]:
    return list((Counter(these) - Counter(those)).elements())


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


@pytest.mark.slow
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

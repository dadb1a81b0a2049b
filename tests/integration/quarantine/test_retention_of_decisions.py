"""What retention drops takes no decision along, and nothing that a decision still needs."""

import pytest
from quarantine_bench import RESOURCE, Bench

from ingestion.partitions import SNAPSHOT, Partition
from orchestration.errors import ConfigurationError
from orchestration.runs.leases import release, try_acquire
from orchestration.stages.base import UnitFailed
from orchestration.warehouse.artifacts import sweep_orphans
from orchestration.warehouse.connections import Role
from orchestration.warehouse.fence import build_lease

SECOND, THIRD = (Partition(RESOURCE, SNAPSHOT, number) for number in (2, 3))


def drop(bench: Bench) -> list[int]:
    """Lets retention drop every artifact that it may, rows and all; their revisions."""
    artifacts = [row[0] for row in bench.query("select artifact_id from ops.artifacts")]
    with bench.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        lease = try_acquire(runner, build_lease("flights"))
        assert lease is not None
        rows = runner.execute(
            "select ops.drop_artifacts(%s, %s, %s)", [lease.name, lease.fence, artifacts]
        ).fetchall()
        release(runner, lease)
    dropped = [artifact for (artifact,) in rows]
    with bench.warehouse.connect(Role.EXTRACTOR, autocommit=True) as extractor:
        extractor.execute(
            "delete from staging.flights__airlines where _artifact_id = any(%s)", [dropped]
        )
        sweep_orphans(extractor, "flights")
    bench.assert_reconciled()
    return [
        revision
        for artifact, revision in bench.query("select artifact_id, revision from ops.artifacts")
        if artifact in dropped
    ]


def erase(bench: Bench) -> int:
    with bench.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        numbers = sorted(bench.records())
        row = runner.execute("select ops.drop_quarantine(%s, '{}')", [numbers]).fetchone()
    bench.assert_reconciled()
    return int(row[0]) if row else 0


def forget(bench: Bench) -> int:
    artifacts = [row[0] for row in bench.query("select artifact_id from ops.artifacts")]
    with bench.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        return len(runner.execute("select ops.forget_artifacts(%s)", [artifacts]).fetchall())


def test_a_correction_outlives_what_it_was_made_on(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": "American"}})
    assert drop(bench) == [1]
    assert (erase(bench), forget(bench)) == (0, 0)
    assert bench.records()[1][0] == "retried"
    # The other record of what was dropped is retried on what is in use.
    bench.retry(2, corrections={2: {"name": "Delta"}})
    assert {"American", "Delta"} <= set(bench.in_use().values())
    bench.fetch()
    assert sorted(drop(bench)) == [2, 3]
    assert {"American", "Delta"} <= set(bench.in_use().values())
    bench.fetch()
    assert {"American", "Delta"} <= set(bench.in_use().values())
    bench.assert_reconciled()


def test_what_decided_records_held_is_erased_and_the_decisions_stay(bench: Bench) -> None:
    bench.send(AA="", DL="", UA="")
    bench.fetch()
    bench.discard(1)
    bench.retry(2, corrections={2: {"name": "Delta"}})
    bench.send(DL="Delta Air Lines", UA="")
    bench.fetch()
    decided = bench.query("select * from quarantine.decisions")
    # The held record stays as it is, and so does one whose partition was fetched again.
    assert erase(bench) == 2
    assert bench.query(
        "select record_id, payload::text, correction::text, erased_at is not null "
        "from quarantine.records where record_id in (1, 2) order by 1"
    ) == [(1, "{}", None, True), (2, "{}", "{}", True)]
    assert "Delta" not in str(bench.query("select correction from quarantine.retry_records"))
    assert bench.query("select * from quarantine.decisions") == decided
    decisions = [decision for decision, _ in bench.records().values()]
    assert decisions == ["discarded", "retried", "held", "held", "held"]
    assert erase(bench) == 0
    with pytest.raises(ConfigurationError):
        bench.request(1)


def test_a_later_fetch_with_an_earlier_number_is_not_dropped_for_a_retry(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.query_as_owner(
        "insert into ops.run_partitions (run_id, resource, window_name, revision) "
        f"select run_id, '{RESOURCE}', 'snapshot', 2 from ops.runs"
    )
    assert bench.retry(1, corrections={1: {"name": "by hand"}}) == THIRD
    bench.send(AA="by the source")
    bench.judge(bench.loaded(SECOND), accepted=True)
    bench.query_as_owner("update ops.runs set status = 'finished', outcome = 'unchanged'")
    assert sorted(drop(bench)) == [1, 3]
    assert "by the source" in bench.in_use().values()


def test_what_an_open_retry_takes_rows_over_from_is_not_dropped(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": "American"}}, accepted=False)
    asked = bench.request(2, corrections={2: {"name": "Delta"}})
    assert drop(bench) == []
    assert asked is not None
    bench.judge(bench.loaded(asked), accepted=True)
    assert "Delta" in bench.in_use().values()
    bench.assert_reconciled()


def test_a_retry_without_anything_left_to_take_over_says_so(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": "American"}})
    assert drop(bench) == [1]
    bench.judge(bench.artifact(SECOND), accepted=False)
    asked = bench.request(2, corrections={2: {"name": "Delta"}})
    assert asked is not None
    result = bench.load(asked)
    assert isinstance(result, UnitFailed)
    assert result.error.code == "artifact_dropped"
    bench.assert_reconciled()

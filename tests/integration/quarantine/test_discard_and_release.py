"""Giving records up, and accepting partitions as they are: decided once, by whom and why, for ever."""

import pytest
from quarantine_bench import Bench

from orchestration.errors import ConfigurationError
from orchestration.pipelines.files import get_pipeline
from orchestration.settings import Settings
from orchestration.triggers.accept import plan_revisions
from orchestration.triggers.request import RunRequest
from orchestration.warehouse.artifacts import accepted_artifacts
from orchestration.warehouse.connections import Role


def test_a_discarded_record_is_decided_for_ever_and_never_loaded(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    assert bench.discard(1, reason="went bankrupt") == {1: True}
    assert bench.query(
        "select decision, decided_by, decided_at is not null, decision_reason from quarantine.records "
        "where record_id = 1"
    ) == [("discarded", "sluice_reviewer", True, "went bankrupt")]
    with pytest.raises(ConfigurationError, match="record-1 was discarded") as refused:
        bench.request(1, corrections={1: {"name": "American"}})
    assert refused.value.code == "decision_refused"
    bench.retry(2, corrections={2: {"name": "Delta"}})
    assert bench.query("select loaded, quarantined from ops.artifacts where revision = 2") == [
        (15, 1)
    ]
    assert bench.events(1) == ["discarded"]
    bench.assert_reconciled()


def test_discarding_twice_is_the_same_as_once(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    assert bench.discard(1, reason="first") == {1: True}
    assert bench.discard(1, reason="second") == {1: False}
    assert bench.query("select action, target, reason from ops.operator_actions") == [
        ("quarantine_discard", "record-1", "first")
    ]


def test_of_several_records_all_are_discarded_or_none(bench: Bench) -> None:
    bench.send(AA="", DL="", UA="")
    bench.fetch()
    bench.retry(2, corrections={2: {"name": "Delta"}})
    for wrong, why in [
        (2, "record-2 was retried by sluice_reviewer"),
        (99, "record-99 was never there"),
    ]:
        with pytest.raises(ConfigurationError, match=why):
            bench.discard(1, wrong)
    assert bench.records()[1][0] == "held"
    assert bench.discard(1, 3) == {1: True, 3: True}
    bench.assert_reconciled()


def test_what_is_being_retried_cannot_be_discarded_meanwhile(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    asked = bench.request(1, corrections={1: {"name": "American"}})
    with pytest.raises(ConfigurationError, match=r"record-1 is being retried as .*@2; finish"):
        bench.discard(1)
    assert asked is not None
    artifact = bench.loaded(asked)
    with pytest.raises(ConfigurationError, match="being retried"):
        bench.discard(1)
    bench.judge(artifact, accepted=False)
    assert bench.discard(1) == {1: True}
    # What has a discarded record is not accepted any more, whatever the rules say then.
    assert bench.judge(artifact, accepted=True) == "rejected"
    with pytest.raises(ConfigurationError, match=r"it has record-1, discarded since"):
        bench.release(artifact)
    assert "American" not in bench.in_use().values()
    bench.assert_reconciled()


def test_a_released_partition_is_in_use_from_then_on_whoever_judges_it_again(bench: Bench) -> None:
    good = bench.fetch()
    bench.send(AA="American")
    bad = bench.fetch(accepted=False)
    assert "American" not in bench.in_use().values()
    assert bench.release(bad, reason="it is true") is True
    assert "American" in bench.in_use().values()
    assert bench.query(
        "select decision, decided_by, decision_reason from quarantine.partitions"
    ) == [("released", "sluice_reviewer", "it is true")]
    assert bench.query("select action, target, reason, actor from ops.operator_actions") == [
        ("quarantine_release", bad.partition, "it is true", "sluice_reviewer")
    ]
    # The same rule is broken still, and does not count.
    assert bench.judge(bad, accepted=False) == "accepted"
    [(reason,)] = bench.query("select acceptance_reason from ops.artifacts where revision = 2")
    assert "released by sluice_reviewer: it is true" in reason
    with bench.warehouse.connect(Role.RUNNER) as runner:
        [counts] = accepted_artifacts(runner, "flights")
    assert (counts.artifact_id, good.acceptance) == (bad.artifact_id, "accepted")
    assert bench.release(bad) is False
    bench.assert_reconciled()


def test_a_release_is_from_the_rules_that_were_broken_and_no_others(bench: Bench) -> None:
    bad = bench.fetch(accepted=False)
    bench.release(bad)
    assert bench.judge(bad, accepted=False, rule="another") == "rejected"
    assert bench.query("select rule, decision from quarantine.partitions order by 1") == [
        ("another", "held"),
        ("min_records", "released"),
    ]
    assert bench.release(bad) is True
    assert bench.judge(bad, accepted=False, rule="another") == "accepted"


def test_only_what_was_rejected_and_not_overtaken_can_be_released(bench: Bench) -> None:
    bad = bench.fetch(accepted=False)
    assert bench.release(bench.fetch()) is False
    with pytest.raises(ConfigurationError, match=r"snapshot@1 cannot be released: .*@2 came after"):
        bench.release(bad)
    pending = bench.loaded(bench.partition_of(3))
    with pytest.raises(ConfigurationError, match="no rule kept it out"):
        bench.release(pending)


def test_a_released_retry_counts_as_retried(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": "American"}}, accepted=False)
    assert bench.records()[1][0] == "held"
    bench.release(bench.artifact(bench.partition_of(2)))
    assert bench.records()[1][0] == "retried"
    assert "American" in bench.in_use().values()
    bench.assert_reconciled()


def test_a_retry_can_make_a_rejected_partition_acceptable(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bad = bench.fetch(accepted=False)
    assert bench.in_use() == {}
    bench.retry(1, 2, corrections={1: {"name": "American"}, 2: {"name": "Delta"}})
    assert len(bench.in_use()) == 16
    with pytest.raises(ConfigurationError, match="came after it, and counts"):
        bench.release(bad)
    bench.assert_reconciled()


def test_runs_and_retries_never_get_the_same_revision(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.request(1, corrections={1: {"name": "American"}})
    pipeline = get_pipeline(Settings().pipelines_dir, "flights")
    at = ("flights.airlines", "snapshot")
    refresh = RunRequest("flights", days=["2013-01-01"], refresh=True)
    plain = RunRequest("flights", days=["2013-01-01"])
    with bench.warehouse.connect(Role.RUNNER) as runner:
        assert plan_revisions(runner, refresh, pipeline, "k2")[at] == 3
        assert plan_revisions(runner, plain, pipeline, "k3")[at] == 1
    bench.retry(1)
    with bench.warehouse.connect(Role.RUNNER) as runner:
        assert plan_revisions(runner, plain, pipeline, "k3")[at] == 2
    bench.judge(bench.artifact(bench.partition_of(2)), accepted=False)
    with bench.warehouse.connect(Role.RUNNER) as runner:
        assert plan_revisions(runner, plain, pipeline, "k3")[at] == 1

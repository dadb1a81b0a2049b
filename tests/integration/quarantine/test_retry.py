"""Retrying records: what passes becomes a new revision, once, and what the source says later counts."""

from dataclasses import replace

import pytest
from quarantine_bench import RESOURCE, Bench

from ingestion.contracts import Contract
from ingestion.fields import About
from ingestion.partitions import SNAPSHOT, Partition
from ingestion.sources import get_resource
from orchestration.errors import ConfigurationError, LeaseLost
from orchestration.pipelines.acceptance import AcceptanceOverride, Freshness, Severity
from orchestration.runs.state import get_run
from orchestration.stages.base import UnitFailed
from orchestration.stages.validate import ValidateStage
from orchestration.warehouse.connections import Role

SECOND, THIRD, FOURTH = (Partition(RESOURCE, SNAPSHOT, number) for number in (2, 3, 4))
AA, DL, UA = "American Airlines Inc.", "Delta Air Lines Inc.", "United Air Lines Inc."


def names(bench: Bench) -> list[str]:
    return sorted(bench.in_use().values())


def test_a_corrected_record_is_loaded_beside_all_that_was_accepted(bench: Bench) -> None:
    bench.send(AA="", DL="")
    first = bench.fetch()
    assert (first.fetched, first.loaded, first.quarantined) == (16, 14, 2)
    before = bench.in_use()

    assert bench.retry(1, corrections={1: {"name": AA}}, reason="looked it up") == SECOND
    second = bench.artifact(SECOND)
    assert (second.fetched, second.loaded, second.quarantined) == (16, 15, 1)
    assert (second.schema_version, second.fetched_at) == (first.schema_version, first.fetched_at)
    after = bench.in_use()
    [(ref, name)] = after.items() - before.items()
    assert name == AA
    assert ref.endswith(";manual=record-1")
    assert before.items() <= after.items()
    assert bench.records()[1][0] == "retried"
    assert bench.records()[2][0] == "held"
    assert bench.events(1) == ["retry_requested", "retried"]
    assert bench.query("select action, target, reason, actor from ops.operator_actions") == [
        ("quarantine_retry", "record-1", "looked it up", "sluice_reviewer")
    ]
    bench.assert_reconciled()


def test_the_same_retry_twice_is_one_revision_and_one_load(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    for _ in range(3):
        assert bench.retry(1, corrections={1: {"name": AA}}) == SECOND
    # Without the file it is the retry that was made.
    assert bench.request(1) == SECOND
    assert bench.query("select count(*) from ops.artifacts") == [(2,)]
    assert bench.query("select count(*) from quarantine.retries") == [(1,)]
    bench.assert_reconciled()


def test_retries_of_one_partition_add_up_whatever_the_order(bench: Bench) -> None:
    bench.send(AA="", DL="", UA="")
    bench.fetch()
    bench.retry(2, corrections={2: {"name": DL}})
    bench.retry(3, 1, corrections={1: {"name": AA}, 3: {"name": UA}})
    assert bench.artifact(THIRD).quarantined == 0
    assert {AA, DL, UA} <= set(names(bench))
    assert bench.query(
        "select r.record_id, a.revision from quarantine.records r join ops.artifacts a "
        "on a.artifact_id = r.retried_into order by 1"
    ) == [(1, 3), (2, 2), (3, 3)]
    bench.assert_reconciled()


def test_what_does_not_pass_makes_no_revision_and_stays_with_the_reason_as_it_is_now(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    assert bench.retry(1) is None
    assert bench.retry(2, corrections={2: {"name": 5}}) is None
    assert bench.events(1) == bench.events(2) == ["still_held"]
    # What is wrong with a correction is not what is wrong with the record.
    assert bench.records()[2] == ("held", "name.string_too_short")
    _allow(monkeypatch, name=(5, 200))
    assert bench.retry(1) is None
    assert bench.query(
        "select error like '%of 5 to 200 characters' from quarantine.records where record_id = 1"
    ) == [(True,)]
    assert bench.query("select count(*) from ops.artifacts") == [(1,)]
    assert bench.query("select count(*) from ops.operator_actions") == [(3,)]
    bench.assert_reconciled()


def test_a_record_passes_as_it_was_sent_once_the_contract_allows_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.send(AA="", DL="x" * 201)
    bench.fetch()
    _allow(monkeypatch, name=(0, 201))
    assert bench.retry(1, 2) == SECOND
    assert {"", "x" * 201} <= set(names(bench))
    assert not any("manual" in ref for ref in bench.in_use())
    assert {decision for decision, _ in bench.records().values()} == {"retried"}
    bench.assert_reconciled()


def test_a_key_that_is_taken_is_found_out_when_the_record_is_loaded(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    bench.retry(1, 2, corrections={1: {"carrier": "UA", "name": AA}, 2: {"name": DL}})
    assert [decision for decision, _ in bench.records().values()] == ["held", "retried"]
    assert bench.events(1) == ["retry_requested", "still_held"]
    assert bench.artifact(SECOND).quarantined == 1
    assert DL in names(bench)
    bench.assert_reconciled()


def test_a_correction_can_be_corrected_and_replaces_the_row(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": "Amercian"}})
    assert bench.retry(1, corrections={1: {"name": AA}}) == THIRD
    assert AA in names(bench)
    assert "Amercian" not in names(bench)
    assert bench.artifact(THIRD).loaded == 16
    assert bench.retry(1, corrections={1: {"name": ""}}) is None
    assert AA in names(bench)
    bench.assert_reconciled()


def test_a_correction_stays_in_force_while_the_source_sends_the_same_bad_record(
    bench: Bench,
) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": AA}})
    for _ in range(2):
        again = bench.fetch()
        assert (again.loaded, again.quarantined) == (16, 0)
        assert AA in names(bench)
        bench.assert_reconciled()
    assert bench.events(1) == ["retry_requested", "retried", "applied_again", "applied_again"]
    # It can be corrected once more, on the grounds of what was fetched last.
    bench.retry(1, corrections={1: {"name": "American"}})
    assert "American" in names(bench)
    assert AA not in names(bench)
    bench.assert_reconciled()


@pytest.mark.parametrize(
    ("sends", "how", "reads", "held"),
    [
        ("American Airways", "corrected", "American Airways", 0),
        (5, "changed", None, 1),
        (None, "changed", None, 1),
    ],
)
def test_what_the_source_itself_says_later_wins_and_it_is_told(
    bench: Bench, sends: object, how: str, reads: str | None, held: int
) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": AA}})
    bench.send(AA=sends)
    later = bench.fetch()
    assert later.quarantined == held
    assert AA not in names(bench)
    if reads is not None:
        assert reads in names(bench)
    assert bench.query("select superseded_how, decision from quarantine.records order by 1")[0] == (
        how,
        "retried",
    )
    assert bench.events(1)[-1] == "superseded"
    with pytest.raises(ConfigurationError, match="@3 was fetched since"):
        bench.request(1, corrections={1: {"name": AA}})
    bench.assert_reconciled()


def test_a_record_that_the_source_withdrew_is_gone_with_its_correction(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": AA}})
    bench.demo.correct("airlines", remove=[{"carrier": "AA"}])
    assert bench.fetch().fetched == 15
    assert AA not in names(bench)
    assert bench.query("select superseded_how from quarantine.records") == [("withdrawn",)]
    bench.assert_reconciled()


def test_a_record_of_a_partition_that_was_fetched_again_is_decided_on_the_new_one(
    bench: Bench,
) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.fetch()
    with pytest.raises(ConfigurationError, match="snapshot@2 was fetched since") as refused:
        bench.request(1)
    assert refused.value.code == "decision_refused"
    assert bench.retry(2, corrections={2: {"name": AA}}) == THIRD
    bench.assert_reconciled()


def test_a_retry_that_was_asked_for_and_not_loaded_ends_when_the_source_is_asked_again(
    bench: Bench,
) -> None:
    bench.send(AA="")
    bench.fetch()
    asked = bench.request(1, corrections={1: {"name": AA}})
    assert asked == SECOND
    bench.fetch()
    result = bench.load(asked)
    assert isinstance(result, UnitFailed)
    assert result.error.code == "retry_replaced"
    assert bench.query("select status from quarantine.retries") == [("obsolete",)]
    assert [decision for decision, _ in bench.records().values()] == ["held", "held"]
    bench.assert_reconciled()


def test_a_retry_takes_over_what_another_reviewer_asked_for_meanwhile(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    theirs = bench.request(1, corrections={1: {"name": AA}}, reason="theirs")
    assert bench.retry(2, corrections={2: {"name": DL}}, reason="mine") == THIRD
    assert {AA, DL} <= set(names(bench))
    assert bench.query("select record_id, decision_reason from quarantine.records order by 1") == [
        (1, "theirs"),
        (2, "mine"),
    ]
    assert theirs is not None
    late = bench.load(theirs)
    assert isinstance(late, UnitFailed)
    assert late.error.code == "retry_replaced"
    assert bench.request(1, corrections={1: {"name": AA}}) == THIRD
    bench.assert_reconciled()


def test_a_fetch_that_was_asked_for_before_a_retry_still_outranks_it(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    # A refresh was accepted as @2 and came to its end only after the retry.
    bench.query_as_owner(
        "insert into ops.run_partitions (run_id, resource, window_name, revision) "
        f"select run_id, '{RESOURCE}', 'snapshot', 2 from ops.runs"
    )
    assert bench.retry(1, corrections={1: {"name": "by hand"}}) == THIRD
    assert "by hand" in names(bench)
    bench.send(AA=AA)
    bench.judge(bench.loaded(SECOND), accepted=True)
    assert AA in names(bench)
    assert "by hand" not in names(bench)
    assert bench.query("select superseded_how from quarantine.records") == [("corrected",)]
    bench.assert_reconciled()


def test_a_retry_that_is_not_acceptable_leaves_its_records_held_and_the_last_good_content(
    bench: Bench,
) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": AA}})
    before = names(bench)
    bench.retry(2, corrections={2: {"name": DL}}, accepted=False)
    assert names(bench) == before
    assert [decision for decision, _ in bench.records().values()] == ["retried", "held"]
    assert bench.events(2) == ["retry_requested", "still_held"]
    bench.assert_reconciled()
    # The next one starts from what is accepted, not from what was refused.
    bench.retry(2, corrections={2: {"name": "Delta"}})
    assert set(before) < set(names(bench))
    assert "Delta" in names(bench)
    bench.assert_reconciled()


def test_a_record_follows_its_revision_when_that_is_judged_again(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": "Amercian"}})
    bench.retry(1, corrections={1: {"name": AA}})
    third = bench.artifact(THIRD)
    for accepted, decision, name in [(False, "retried", "Amercian"), (True, "retried", AA)]:
        bench.judge(third, accepted=accepted)
        assert bench.records()[1][0] == decision
        assert name in names(bench)
        bench.assert_reconciled()
    bench.judge(third, accepted=False)
    bench.judge(bench.artifact(SECOND), accepted=False)
    assert bench.records()[1] == ("held", "name.string_too_short")
    assert AA not in names(bench)
    assert bench.events(1)[-1] == "reopened"
    bench.assert_reconciled()


def test_a_retry_is_as_fresh_as_the_partition_that_it_came_from(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": AA}})
    # The judgement comes a year later, and asks for data of the last hour.
    bench.query_as_owner("update ops.runs set as_of = '2013-03-01 10:00Z'")
    bench.query_as_owner("update ops.artifacts set fetched_at = '2013-03-01 09:30Z'")
    bench.query_as_owner(
        "insert into ops.runs (run_id, pipeline, trigger_kind, trigger_key, code_id, request, as_of, "
        "correlation_id, workflow_id) select 'r_later', pipeline, trigger_kind, 'later', code_id, "
        "request, '2014-03-01', correlation_id, workflow_id from ops.runs"
    )
    freshness = Freshness(max_age_hours=1, severity=Severity.ERROR)
    wanted = AcceptanceOverride(freshness=freshness, max_quarantined_share=1.0)
    artifacts = [bench.artifact(Partition(RESOURCE, SNAPSHOT, number)) for number in (1, 2)]
    with bench.warehouse.connect(Role.RUNNER, autocommit=True) as runner:
        context = bench.context(runner, [])
        context.run = get_run(runner, "r_later")
        resource = context.pipeline.resource(RESOURCE).model_copy(update={"acceptance": wanted})
        context.pipeline = context.pipeline.model_copy(update={"resources": (resource,)})
        findings = ValidateStage()._judge(context, artifacts)
        context.sessions.close()
    assert [[item.rule for item in findings[artifact.artifact_id]] for artifact in artifacts] == [
        ["freshness"],
        [],
    ]


def test_damaged_rows_of_a_retry_are_composed_again(bench: Bench) -> None:
    bench.send(AA="", DL="")
    bench.fetch()
    bench.retry(1, corrections={1: {"name": AA}})
    bench.retry(2, corrections={2: {"name": DL}})
    before = bench.in_use()
    third = bench.artifact(THIRD)
    bench.query_as_owner(
        f"delete from staging.flights__airlines where _artifact_id = '{third.artifact_id}' "
        "and carrier < 'E'"
    )
    assert bench.loaded(THIRD) == third
    assert bench.in_use() == before
    bench.assert_reconciled()


def test_a_retry_on_damaged_rows_is_refused(bench: Bench) -> None:
    bench.send(AA="")
    bench.fetch()
    bench.query_as_owner("delete from staging.flights__airlines where carrier = 'DL'")
    asked = bench.request(1, corrections={1: {"name": AA}})
    assert asked is not None
    result = bench.load(asked)
    assert isinstance(result, UnitFailed)
    assert result.error.code == "artifact_damaged"
    assert "--refresh" in result.error.message


def test_a_late_worker_loads_no_retry(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.send(AA="")
    bench.fetch()
    asked = bench.request(1, corrections={1: {"name": AA}})
    assert asked is not None
    before = bench.query("select * from quarantine.records")
    from orchestration.stages import extract

    load = extract.load_spooled_partitions

    def load_slowly(*arguments: object, **named: object) -> None:
        load(*arguments, **named)  # type: ignore[arg-type]
        bench.query_as_owner("update ops.leases set fence = nextval('ops.fence')")

    monkeypatch.setattr(extract, "load_spooled_partitions", load_slowly)
    with pytest.raises(LeaseLost):
        bench.load(asked)
    assert bench.query("select * from quarantine.records") == before
    assert bench.query("select status from quarantine.retries") == [("open",)]
    bench.assert_reconciled()


def _allow(monkeypatch: pytest.MonkeyPatch, name: tuple[int, int]) -> None:
    """Today's contract allows names of these lengths."""
    resource = get_resource(RESOURCE)
    before: Contract = resource.contract
    hints = {
        field.name: replace(field.about, length=name) if field.name == "name" else field.about
        for field in before.fields
    }
    from typing import Annotated, TypedDict

    record = TypedDict("record", {key: Annotated[str, about] for key, about in hints.items()})  # type: ignore[misc]
    assert all(isinstance(about, About) for about in hints.values())
    monkeypatch.setitem(resource.__dict__, "contract", replace(before, record=record))

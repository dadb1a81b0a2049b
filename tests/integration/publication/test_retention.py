"""What a prune drops from a warehouse, and what it leaves to readers and operators."""

from typing import Any

import pytest
from retention_rows import (
    add_run,
    ask,
    change,
    prune,
    relations_of,
    stage_rows,
    staged,
    store_objects,
)
from segment_tables import Segment

from orchestration.errors import ConfigurationError
from orchestration.identity import VersionId
from orchestration.publication.versions import get_version, resolve_version
from orchestration.warehouse.connections import Role, Warehouse

DAY = "flights.weather/2013-01-01"


def number(value: int) -> dict[str, str]:
    return {"fct": f"select {value} as value", "dim": "select 'same' as name"}


@pytest.fixture
def four(flights: Any) -> list[VersionId]:
    """Four versions, each published after the other, that share one relation."""
    versions = []
    for value in range(4):
        versions.append(flights.build(number(value), {DAY: value + 1}))
        flights.publish(versions[-1])
    return versions


def test_previous_versions_stay_and_older_ones_go_with_their_relations(
    flights: Any, warehouse: Warehouse, four: list[VersionId]
) -> None:
    [shared] = relations_of(warehouse, four[0]) & relations_of(warehouse, four[3])
    needed = set.union(*(relations_of(warehouse, version) for version in four[2:]))
    done = prune(warehouse, previous_versions=1)
    assert [item["version_id"] for item in done.versions] == four[:2]
    assert store_objects(warehouse) == needed
    assert shared in needed
    assert flights.read("select value from analytics.fct") == [(3,)]
    flights.rollback()
    assert flights.read("select value from analytics.fct") == [(2,)]


def test_a_rollback_always_has_somewhere_to_go(
    flights: Any, warehouse: Warehouse, four: list[VersionId]
) -> None:
    prune(warehouse, previous_versions=0)
    assert flights.rollback().version_id == four[2]


def test_a_second_prune_finds_nothing(warehouse: Warehouse, four: list[VersionId]) -> None:
    assert not prune(warehouse).is_empty
    again = prune(warehouse)
    assert again.is_empty
    assert again.left == []
    assert ask(warehouse, "select count(*) from ops.operator_actions where action = 'prune'") == [
        (1,)
    ]


def test_who_names_a_dropped_version_is_told_that_it_was_dropped(
    flights: Any, warehouse: Warehouse, four: list[VersionId]
) -> None:
    prune(warehouse)
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        for look in (
            lambda: resolve_version(connection, four[0][2:9]),
            lambda: resolve_version(connection, four[0], "flights"),
            lambda: get_version(connection, four[0]),
        ):
            with pytest.raises(ConfigurationError, match="was dropped by retention on") as caught:
                look()
            assert caught.value.code == "version_dropped"
    for act in (flights.rollback, flights.prepare):
        with pytest.raises(ConfigurationError, match="sluice versions list") as caught:
            act(four[0])
        assert caught.value.code == "version_dropped"
    with (
        warehouse.connect(Role.RUNNER, autocommit=True) as connection,
        pytest.raises(ConfigurationError) as caught,
    ):
        resolve_version(connection, four[0], "weather")
    assert caught.value.code == "version_unknown"


def test_a_dropped_version_that_is_built_again_is_one_like_any_other(
    flights: Any, warehouse: Warehouse, four: list[VersionId]
) -> None:
    prune(warehouse)
    assert flights.build(number(0), {DAY: 1}) == four[0]
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        assert get_version(connection, four[0]).state == "passed"
    prune(warehouse)
    with (
        warehouse.connect(Role.RUNNER, autocommit=True) as connection,
        pytest.raises(ConfigurationError, match="dropped"),
    ):
        get_version(connection, four[0])


@pytest.mark.parametrize("state", ["held", "passed", "candidate", "rejected"])
def test_held_versions_stay_and_candidates_stay_for_some_days(
    flights: Any, warehouse: Warehouse, four: list[VersionId], state: str
) -> None:
    version = flights.build(number(9), {DAY: 9}, state=state)
    prune(warehouse, candidate_days=1)
    assert relations_of(warehouse, version) <= store_objects(warehouse)
    change(
        warehouse,
        "update ops.versions set created_at = now() - interval '2 days' where version_id = %s",
        version,
    )
    prune(warehouse, candidate_days=1)
    assert bool(relations_of(warehouse, version)) == (state == "held")


def test_a_candidates_schema_goes_with_it_but_never_what_people_put_on_top(
    flights: Any, warehouse: Warehouse, four: list[VersionId]
) -> None:
    version = flights.build(number(9), {DAY: 9}, state="candidate")
    [relation] = relations_of(warehouse, version) - relations_of(warehouse, four[0])
    with warehouse.connect(Role.TRANSFORMER, autocommit=True) as transformer:
        transformer.execute("select ops.create_version_schema(%s)", [version])
        transformer.execute(f"create view {version}.fct as select * from store.{relation}".encode())
        transformer.execute(f"grant select on {version}.fct to sluice_analyst".encode())
    change(warehouse, "create schema dev_ann")
    change(warehouse, f"create view dev_ann.mine as select * from {version}.fct")
    done = prune(warehouse)
    assert [(item.what, item.why) for item in done.left] == [
        (f"version {version}", "something that is not Sluice's stands on it")
    ]
    assert ask(warehouse, "select * from dev_ann.mine") == [(9,)]
    change(warehouse, "drop view dev_ann.mine")
    assert prune(warehouse).left == []
    assert ask(warehouse, "select to_regnamespace(%s)", version) == [(None,)]
    assert relation not in store_objects(warehouse)


def test_leftover_schemas_of_versions_that_are_gone_or_not_pinned_go(
    warehouse: Warehouse, four: list[VersionId]
) -> None:
    gone = "v_" + "0" * 16
    with warehouse.connect(Role.TRANSFORMER, autocommit=True) as transformer:
        for version in (gone, four[3]):
            transformer.execute("select ops.create_version_schema(%s)", [version])
    assert set(prune(warehouse).schemas) == {gone, four[3]}


def test_what_a_session_reads_is_left_and_named_and_goes_next_time(
    flights: Any, warehouse: Warehouse, four: list[VersionId]
) -> None:
    [old] = relations_of(warehouse, four[0]) - relations_of(warehouse, four[3])
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute(f"select * from store.{old}".encode())
        done = prune(warehouse)
        [left] = done.left
        assert left.what == f"store.{old}"
        assert f"pid {reader.info.backend_pid}, user sluice_analyst" in left.why
        assert old in store_objects(warehouse)
    assert [item["relation"] for item in prune(warehouse).relations] == [old]


def test_what_an_analysts_view_stands_on_is_left_and_named(
    flights: Any, warehouse: Warehouse, four: list[VersionId]
) -> None:
    [old] = relations_of(warehouse, four[0]) - relations_of(warehouse, four[3])
    change(warehouse, "create schema dev_ann")
    change(warehouse, f"create view dev_ann.mine as select * from store.{old}")
    [left] = prune(warehouse).left
    assert (left.what, left.why) == (f"store.{old}", "read by dev_ann.mine")
    assert ask(warehouse, "select * from dev_ann.mine") == [(0,)]


def test_segments_go_when_no_view_that_is_kept_has_them(flights: Any, warehouse: Warehouse) -> None:
    def days(names: list[str], value: int) -> Segment:
        return Segment(
            f"select d as day, {value} as value, d as _partition from unnest(array{names}::text[]) d",
            tuple(names),
        )

    first, second, corrected = (
        days(["2013-01-01"], 1),
        days(["2013-01-02"], 1),
        days(["2013-01-01"], 5),
    )
    manifests = [{DAY: 1}, {DAY: 1, "flights.weather/2013-01-02": 1}]
    versions = [
        flights.build({"fct": [first]}, manifests[0]),
        flights.build({"fct": [first, second]}, manifests[1]),
        flights.build({"fct": [second, corrected]}, {**manifests[1], DAY: 2}),
    ]
    for version in versions:
        flights.publish(version)
    # The second version is still in the other slot.
    prune(warehouse)
    names = {"fct", "fct__live"}
    assert len(store_objects(warehouse)) == 3 + 2 * len(names)
    change(warehouse, "delete from ops.versions where version_id = %s", versions[1])
    flights.publish(
        flights.build(
            {"fct": [second, corrected], "dim": "select 1 as x"}, {**manifests[1], DAY: 2}
        )
    )
    prune(warehouse)
    rows = ask(warehouse, "select segment_name from ops.view_segments")
    views = relations_of(warehouse, flights.published())
    assert store_objects(warehouse) == {name for (name,) in rows} | views | {
        f"{name}__live" for name in views if name.startswith("fct")
    }
    assert len(set(rows)) == 2
    assert flights.read("select sum(value) from analytics.fct") == [(6,)]


def test_superseded_artifacts_go_with_their_rows_once_no_version_needs_them(
    warehouse: Warehouse, four: list[VersionId]
) -> None:
    stage_rows(warehouse)
    done = prune(warehouse)
    assert {item["partition"] for item in done.artifacts} == {f"{DAY}@1", f"{DAY}@2"}
    assert done.counts["rows"] == 4
    assert staged(warehouse) == {f"flights {DAY}@3", f"flights {DAY}@4"}
    assert ask(warehouse, "select count(*) from ops.artifacts") == [(2,)]
    assert ask(warehouse, "select count(*) from ops.manifests") == [(2,)]


def test_an_artifact_of_an_open_or_resumable_run_stays(
    warehouse: Warehouse, four: list[VersionId]
) -> None:
    stage_rows(warehouse)
    with warehouse.connect() as owner:
        add_run(owner, "r_open", status="running", partitions=(f"{DAY}@1",))
        add_run(owner, "r_failed", status="failed", days_ago=0.5, partitions=(f"{DAY}@2",))
        add_run(owner, "r_latest", days_ago=0.1)
    assert prune(warehouse).artifacts == []
    change(
        warehouse,
        "update ops.runs set finished_at = now() - interval '2 days' where status = 'failed'",
    )
    assert [item["partition"] for item in prune(warehouse).artifacts] == [f"{DAY}@2"]
    assert ask(warehouse, "select run_id from ops.runs order by 1") == [("r_latest",), ("r_open",)]
    assert staged(warehouse) == {f"flights {DAY}@{revision}" for revision in (1, 3, 4)}


def test_a_run_that_is_kept_still_tells_what_it_loaded(
    warehouse: Warehouse, four: list[VersionId]
) -> None:
    with warehouse.connect() as owner:
        add_run(owner, "r_ended", days_ago=0.5, partitions=(f"{DAY}@1",))
    prune(warehouse)
    assert ask(warehouse, "select state, loaded from ops.artifacts where revision = 1") == [
        ("dropped", 1)
    ]
    change(warehouse, "update ops.runs set finished_at = now() - interval '9 days'")
    with warehouse.connect() as owner:
        add_run(owner, "r_later", days_ago=0.1)
    prune(warehouse)
    assert ask(warehouse, "select count(*) from ops.artifacts where revision = 1") == [(0,)]


def test_old_runs_go_with_attempts_messages_and_verdicts_but_not_what_stands_for_kept_data(
    warehouse: Warehouse, four: list[VersionId]
) -> None:
    kept, gone = f"flights {DAY}@4", f"flights {DAY}@1"
    with warehouse.connect() as owner:
        add_run(owner, "r_old", partitions=(f"{DAY}@1",))
        add_run(owner, "r_latest", days_ago=2)
        for key, output in (("a", kept), ("b", gone)):
            owner.execute(
                "insert into ops.checkpoints (idempotency_key, pipeline, stage, source_partition, run_id, "
                "status, fence, attempt, output_ref) values (repeat(%s, 64), 'flights', 'extract', %s, "
                "'r_old', 'succeeded', 1, 1, %s)",
                [key, output, output],
            )
            owner.execute(
                "insert into ops.attempts (idempotency_key, attempt, run_id, fence, worker) "
                "values (repeat(%s, 64), 1, 'r_old', 1, 'w')",
                [key],
            )
        for subject in (four[3], "flights.weather"):
            owner.execute(
                "insert into ops.verdicts (pipeline, run_id, stage, subject, suite, suite_hash, verdict, "
                "results) values ('flights', 'r_old', 'gate', %s, 's', 'h', 'passed', '{}')",
                [subject],
            )
        for key, delivered in (("told", True), ("untold", False)):
            owner.execute(
                "insert into ops.outbox (dedup_key, pipeline, run_id, kind, owner, payload, delivered_at) "
                "values (%s, 'flights', 'r_old', 'failed', 'o', '{}', case when %s then now() end)",
                [key, delivered],
            )
        owner.execute(
            "insert into ops.leases (name, fence, expires_at) values ('run/r_old', 1, '-infinity'), "
            "('partition/flights/flights.weather/2013-01-01', 2, '-infinity')"
        )
    done = prune(warehouse)
    assert done.runs == ["r_old"]
    assert ask(warehouse, "select run_id from ops.runs") == [("r_latest",)]
    assert ask(warehouse, "select left(idempotency_key, 1) from ops.checkpoints") == [("a",)]
    assert ask(warehouse, "select count(*) from ops.attempts") == [(0,)]
    assert ask(warehouse, "select subject from ops.verdicts") == [(four[3],)]
    assert ask(warehouse, "select dedup_key from ops.outbox where run_id is not null") == [
        ("untold",)
    ]
    assert ask(warehouse, "select name from ops.leases where name not like 'publish:%%'") == [
        ("build/flights",)
    ]


def test_what_a_decided_record_held_is_erased_after_its_days_and_the_decision_stays(
    warehouse: Warehouse, four: list[VersionId]
) -> None:
    artifact = f"flights {DAY}@1"
    # Records that were decided on long ago, as no test can wait for.
    change(warehouse, "alter table quarantine.records disable trigger guard_records")
    for index, (decision, days) in enumerate([("held", 900), ("discarded", 3), ("discarded", 1)]):
        change(
            warehouse,
            "insert into quarantine.records (pipeline, resource, partition, artifact_id, run_id, "
            "source_ref, rule, error, payload, contract_version, decision, decided_at, decided_by, "
            "decision_reason) values ('flights', 'flights.weather', %s, %s, 'r', %s, 'range', 'e', "
            "'{\"humid\": 101}', '1', %s, now() - make_interval(days => %s), 'somebody', 'because')",
            *(f"{DAY}@1", artifact, str(index), decision, days),
        )
    change(warehouse, "alter table quarantine.records enable trigger guard_records")
    done = prune(warehouse, quarantine_days=2)
    assert done.counts["quarantine"] == 1
    assert ask(
        warehouse,
        "select decision, payload::text, erased_at is not null, decision_reason "
        "from quarantine.records order by source_ref",
    ) == [
        ("held", '{"humid": 101}', False, "because"),
        ("discarded", "{}", True, "because"),
        ("discarded", '{"humid": 101}', False, "because"),
    ]
    assert prune(warehouse, quarantine_days=2).counts["quarantine"] == 0
    # The data of the artifact went; the line about it stays for the reviewer.
    assert ask(warehouse, "select state from ops.artifacts where artifact_id = %s", artifact) == [
        ("dropped",)
    ]


def test_without_a_policy_nothing_of_a_pipeline_goes(
    flights: Any, weather: Any, warehouse: Warehouse, four: list[VersionId]
) -> None:
    versions = [weather.build({"agg": f"select {value} as value"}) for value in range(3)]
    for version in versions:
        weather.publish(version)
    prune(warehouse)
    for version in versions:
        assert relations_of(warehouse, version) <= store_objects(warehouse)

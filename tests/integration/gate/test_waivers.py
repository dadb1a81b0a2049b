"""What a reviewer approved stays failed and keeps nothing from readers; anything else is judged anew."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from shelf import BETWEEN, NOON, SUITE, Content, Shelf, content, rows

from orchestration.errors import ConfigurationError
from orchestration.identity import VersionId
from orchestration.stages.judging import Judging
from orchestration.stages.version_tests import DBT_TESTS
from orchestration.stages.version_tests import TestRule as RuleOfTest
from orchestration.stages.version_tests import tests_as_verdict as as_verdict
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.content import Parts
from orchestration.warehouse.dbt.data_tests import TestOutcome as Outcome
from orchestration.warehouse.dbt.test_reads import TestNode as Node
from orchestration.warehouse.dbt.test_reads import TestScope as Scope
from orchestration.warehouse.decisions import approve_version, reject_version, release_partition
from orchestration.warehouse.judgements import Rule
from orchestration.warehouse.manifests import compose_manifest

GOOD = content(rows(*range(1, 20)))
FAST = content([*rows(101), *rows(102, 103, speed=500)])
TENTH, ELEVENTH = "2024-06-10", "2024-06-11"


@dataclass
class Desk:
    """A shelf whose versions are held when their gate does not accept them, and a reviewer."""

    shelf: Shelf
    reviewer: psycopg.Connection

    def judge(self, *lines: str, **days: Content) -> tuple[VersionId, Judging]:
        """The gate of a run of its own on these days of June (`d1` is the first)."""
        self.shelf.write_suite(*(lines or SUITE))
        named = {f"2024-06-{int(name[1:]):02}": held for name, held in days.items()}
        version = self.shelf.version(named, ["m"])
        judging = self.shelf.judge(version)
        self.shelf.owner.execute(
            "update ops.versions set state = %s where version_id = %s",
            ["held" if judging.refused else "passed", version],
        )
        return version, judging

    def approve(self, version: VersionId, reason: str = "seen") -> bool:
        return approve_version(self.reviewer, version, reason)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        return self.shelf.owner.execute(statement.encode()).fetchall()


@pytest.fixture
def desk(shelf: Shelf) -> Iterator[Desk]:
    with shelf.warehouse.connect(Role.REVIEWER, autocommit=True) as reviewer:
        yield Desk(shelf, reviewer)


def test_an_approved_day_is_looked_at_no_more_in_a_version_that_has_it(desk: Desk) -> None:
    desk.judge(d1=GOOD)
    tenth, judging = desk.judge(d1=GOOD, d10=FAST)
    assert judging.refused == ["readings"]
    # Another night while nobody has decided: the day is still in the way.
    both, judging = desk.judge(d1=GOOD, d10=FAST, d11=content(rows(301)))
    assert judging.refused == ["readings"]
    assert desk.approve(tenth)
    _, judging = desk.judge(d1=GOOD, d10=FAST, d11=content(rows(301)))
    assert (judging.refused, judging.statuses) == ([], {"readings": "passed"})
    assert judging.verdicts["readings"]["partitions"] == [ELEVENTH]
    # It rests on the waiver all the same, and so does every version after it.
    assert desk.ask(
        "select w.partition, w.failing, w.reason, w.decided_by from ops.judgements j "
        f"join ops.waivers w on w.waiver_id = any(j.waivers) where j.version_id = '{both}'"
    ) == [(TENTH, 2, "seen", "sluice_reviewer")]
    third, _ = desk.judge(d1=GOOD, d11=content(rows(301)), d10=FAST, d12=content(rows(401)))
    assert desk.ask(
        f"select cardinality(waivers) from ops.judgements where version_id = '{third}' "
        "and verdict = 'waived'"
    ) == [(1,)]


def test_judged_again_it_stays_failed_and_is_called_waived(desk: Desk) -> None:
    version, _ = desk.judge(d1=GOOD, d10=FAST)
    desk.approve(version, "a race car")
    desk.shelf.runs -= 1
    _, judging = desk.judge(d1=GOOD, d10=FAST)
    assert (judging.refused, judging.statuses) == ([], {"readings": "waived"})
    [failed] = [
        item
        for item in judging.verdicts["readings"]["results"]
        if not item["success"] and item["severity"] == "critical"
    ]
    assert failed["waived"] is True
    [waiver] = failed["waivers"]
    assert (waiver["partition"], waiver["by"], waiver["reason"]) == (
        TENTH, "sluice_reviewer", "a race car",
    )  # fmt: skip
    assert desk.ask("select distinct verdict from ops.verdicts order by 1") == [
        ("failed",),
        ("waived",),
    ]


def test_new_content_of_the_day_is_judged_anew(desk: Desk) -> None:
    version, _ = desk.judge(d1=GOOD, d10=FAST)
    desk.approve(version)
    corrected = content([*rows(101), *rows(102, 103, speed=400)])
    corrected_version, judging = desk.judge(d1=GOOD, d10=corrected)
    assert judging.refused == ["readings"]
    desk.approve(corrected_version)
    # What it was waived for is gone: the version after it rests on the new waiver alone.
    last, _ = desk.judge(d1=GOOD, d10=corrected, d11=content(rows(301)))
    assert desk.ask(
        f"select cardinality(waivers) from ops.judgements where version_id = '{last}' "
        "and verdict = 'waived'"
    ) == [(1,)]


def test_an_edit_of_another_expectation_leaves_the_waiver_in_force(desk: Desk) -> None:
    version, _ = desk.judge(d1=GOOD, d10=FAST)
    desk.approve(version)
    _, judging = desk.judge(*SUITE, f"{BETWEEN} | info | {{column: key, min_value: 0}}", d1=GOOD,
                            d10=FAST)  # fmt: skip
    assert judging.verdicts["readings"]["partitions"] is None
    assert judging.statuses == {"readings": "waived"}


def test_a_changed_rule_is_judged_anew(desk: Desk) -> None:
    version, _ = desk.judge(d1=GOOD, d10=FAST)
    desk.approve(version)
    stricter = [line.replace("max_value: 100", "max_value: 99") for line in SUITE]
    assert desk.judge(*stricter, d1=GOOD, d10=FAST)[1].refused == ["readings"]


def test_one_row_more_than_was_seen_is_not_waived(desk: Desk) -> None:
    """The data are the same, but what it is looked up in has changed."""
    foreign = content([*rows(101, unit="m"), *rows(102, unit="ft"), *rows(103, unit="yd")])
    desk.shelf.write_suite(*SUITE)
    days = {"2024-06-01": GOOD, TENTH: foreign}
    for units, refused in ((["m", "ft"], True), (["m", "ft", "in"], False), (["m"], True)):
        version = desk.shelf.version(days, units)
        judging = desk.shelf.judge(version)
        assert bool(judging.refused) is refused, units
        if units == ["m", "ft"]:
            desk.shelf.owner.execute("update ops.versions set state = 'held'")
            desk.approve(version)


def test_a_shared_key_is_waived_where_it_was_seen_and_nowhere_else(desk: Desk) -> None:
    desk.judge(d1=GOOD)
    version, judging = desk.judge(d1=GOOD, d10=content(rows(1, 102, seen=NOON + timedelta(1))))
    assert judging.refused == ["readings"]
    desk.approve(version)
    days = {"d1": GOOD, "d10": content(rows(1, 102, seen=NOON + timedelta(1)))}
    assert desk.judge(**days, d11=content(rows(301)))[1].refused == []
    assert desk.judge(**days, d12=content(rows(102, 400)))[1].refused == ["readings"]


def test_a_number_of_all_rows_is_waived_for_exactly_these_rows(desk: Desk) -> None:
    quick = content(rows(201, 202, speed=90))
    version, judging = desk.judge(d1=quick)
    [breach] = judging.breaches
    assert (breach.partition, breach.what) == (None, "expect_column_mean_to_be_between(speed)")
    desk.approve(version)
    desk.shelf.runs -= 1
    assert desk.judge(d1=quick)[1].statuses == {"readings": "waived"}
    assert desk.judge(d1=quick, d2=content(rows(301, speed=95)))[1].refused == ["readings"]


def test_a_count_that_was_waived_is_waived_for_that_partition_alone(desk: Desk) -> None:
    version, judging = desk.judge(d1=GOOD, d10=content(rows(101), loaded=2))
    [breach] = judging.breaches
    assert (breach.partition, breach.failing) == (TENTH, None)
    desk.approve(version)
    short = content(rows(101), loaded=2)
    assert desk.judge(d1=GOOD, d10=short, d11=content(rows(301)))[1].refused == []
    _, judging = desk.judge(d1=GOOD, d10=short, d11=content(rows(302), loaded=2))
    assert judging.refused == ["readings"]


def test_a_data_test_that_failed_is_waived_for_what_it_looked_at(desk: Desk) -> None:
    def judge(**days: Content) -> Judging:
        desk.shelf.write_suite(*SUITE)
        version = desk.shelf.version({f"2024-06-{n[1:]}": held for n, held in days.items()}, ["m"])
        judging = desk.shelf.judging(version)
        rule = Rule(f"dbt:{NODE.unique_id}", "a" * 64, Parts(frozenset({"readings"})))
        judging._find_bases([rule], ["passed"])
        due = judging._is_due(rule)
        judging.test_rules = [RuleOfTest(NODE, rule)]
        judging.outcomes = [(RuleOfTest(NODE, rule), OUTCOME)] if due else []
        judging.said = {rule: "failed"} if due else {}
        found = [OUTCOME] if due else []
        judging.verdicts[DBT_TESTS] = as_verdict(found, judging.test_rules, judging.bases)
        judging.evaluate_suites()
        with desk.shelf.runner.transaction():
            judging.record(desk.shelf.lease)
        desk.shelf.owner.execute(
            "update ops.versions set state = 'held' where version_id = %s", [version]
        )
        return judging

    judging = judge(d01=GOOD)
    [breach] = judging.breaches
    assert (breach.what, breach.partition, breach.rule) == ("is_odd", None, "a" * 64)
    assert breach.artifacts == (judging.under.manifest.artifacts[0].artifact_id,)
    desk.approve(judging.under.version_id)
    # The same rows are not looked at again; with others beside them they are in no question.
    assert judge(d01=GOOD, d02=content(rows(301))).refused == [DBT_TESTS]
    desk.shelf.runs = 0
    again = judge(d01=GOOD)
    assert (again.refused, again.statuses[DBT_TESTS]) == ([], "waived")


NODE = Node("test.p.is_odd", "is_odd", Scope.CHANGED, ("readings",), (), (), {})
OUTCOME = Outcome(NODE.unique_id, "is_odd", "fail", "error", model="readings", failures=3)


def test_a_rejected_day_is_set_aside_until_somebody_releases_it(desk: Desk) -> None:
    published, _ = desk.judge(d1=GOOD)
    desk.shelf.owner.execute(
        "insert into ops.publications (pipeline, version_id, kind, slot) "
        "values ('flights', %s, 'publish', 'a')",
        [published],
    )
    desk.shelf.owner.execute(
        "insert into ops.publication_pointer "
        "select 'flights', 'a', version_id, publication_id from ops.publications"
    )
    version, judging = desk.judge(d1=GOOD, d10=FAST)
    [breach] = judging.breaches
    [artifact] = breach.artifacts
    partitions = reject_version(desk.reviewer, version, "nonsense")
    assert partitions is not None
    [partition] = partitions
    assert partition.startswith(f"demo.readings/{TENTH}@")
    assert windows(desk) == ["2024-06-01"]
    assert desk.ask("select state from ops.versions order by created_at") == [
        ("passed",),
        ("rejected",),
    ]
    [entry] = desk.ask(
        "select rule, decision, decided_by, decision_reason, error from quarantine.partitions"
    )
    assert entry == (
        f"readings:{BETWEEN}(speed)", "discarded", "sluice_reviewer", "nonsense", "Because. (2 rows)",
    )  # fmt: skip
    assert reject_version(desk.reviewer, version, "again") is None
    with pytest.raises(ConfigurationError, match="rejected by sluice_reviewer: nonsense"):
        desk.approve(version)

    assert release_partition(desk.reviewer, artifact, "it is right after all")
    assert windows(desk) == ["2024-06-01", TENTH]
    assert desk.ask(f"select state from ops.versions where version_id = '{version}'") == [("held",)]
    # The gate lets pass what was released.
    desk.shelf.runs -= 1
    assert desk.judge(d1=GOOD, d10=FAST)[1].statuses == {"readings": "waived"}
    assert desk.ask("select action, reason from ops.operator_actions order by action_id") == [
        ("review_reject", "nonsense"),
        ("quarantine_release", "it is right after all"),
    ]


def windows(desk: Desk) -> list[str]:
    """What the next version would be made from."""
    return [item.window_name for item in compose_manifest(desk.shelf.runner, "flights").artifacts]


def test_a_version_is_approved_once_and_only_while_it_is_held(desk: Desk) -> None:
    held, _ = desk.judge(d1=GOOD, d10=FAST)
    passed, _ = desk.judge(d1=GOOD)
    assert desk.approve(held, "once")
    assert not desk.approve(held, "twice")
    with pytest.raises(ConfigurationError, match="it was approved by sluice_reviewer: once"):
        reject_version(desk.reviewer, held, "no")
    with pytest.raises(ConfigurationError, match="it passed its gate"):
        desk.approve(passed)
    with pytest.raises(ConfigurationError, match="there is none of this name"):
        desk.approve(VersionId("v_0"))
    desk.shelf.owner.execute("update ops.versions set state = 'held'")
    with pytest.raises(ConfigurationError, match="judged again first"):
        desk.approve(passed)
    assert desk.ask("select action, target, reason, actor from ops.operator_actions") == [
        ("review_approve", held, "once", "sluice_reviewer")
    ]


def test_an_approval_that_is_cut_off_in_the_middle_was_not_made(desk: Desk) -> None:
    version, _ = desk.judge(d1=GOOD, d10=FAST)
    with desk.shelf.warehouse.connect() as owner, ThreadPoolExecutor(1) as pool:
        # It has waived and settled everything, and is about to write down who did it.
        owner.execute("lock table ops.operator_actions in exclusive mode")
        approval = pool.submit(desk.approve, version)
        while not desk.ask(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'sluice_reviewer' "
            "and wait_event_type = 'Lock' and datname = current_database()"
        ):
            time.sleep(0.02)
        with pytest.raises(psycopg.OperationalError):
            approval.result()
    assert desk.ask("select count(*) from ops.waivers") == [(0,)]
    assert desk.ask("select state from ops.versions") == [("held",)]
    with desk.shelf.warehouse.connect(Role.REVIEWER, autocommit=True) as again:
        assert approve_version(again, version, "seen")
        assert not approve_version(again, version, "seen")


def test_waivers_outlive_their_version_and_not_even_the_owner_changes_them(desk: Desk) -> None:
    version, _ = desk.judge(d1=GOOD, d10=FAST)
    desk.approve(version)
    for statement in ("delete from ops.waivers", "update ops.waivers set reason = 'another'"):
        with pytest.raises(psycopg.errors.DatabaseError, match="kept for ever"):
            desk.shelf.owner.execute(statement.encode())
    desk.ask("delete from ops.versions returning 1")
    desk.shelf.under.clear()
    assert desk.judge(d1=GOOD, d10=FAST)[1].statuses == {"readings": "waived"}


OTHERS = [role for role in Role if role is not Role.REVIEWER]
DECISIONS = [
    "select ops.approve_version('v_0', 'because')",
    "select ops.reject_version('v_0', 'because')",
]
BY_HAND = [
    "select ops.set_aside('v_0', 'held', 'because')",
    "insert into ops.waivers (pipeline) values ('flights')",
]
FORBIDDEN = [
    *((role, statement) for role in OTHERS for statement in (*DECISIONS, *BY_HAND)),
    *((Role.REVIEWER, statement) for statement in BY_HAND),
    (Role.REVIEWER, "insert into ops.breaches (version_id) values ('v_0')"),
    (Role.REVIEWER, "update ops.versions set state = 'passed'"),
    (Role.REVIEWER, "update ops.judgements set verdict = 'waived'"),
]


def test_nobody_but_a_reviewer_decides_and_a_reviewer_through_functions_alone(
    warehouse: Warehouse,
) -> None:
    refusals = (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
    connections = {role: warehouse.connect(role, autocommit=True) for role in Role}
    for role, statement in FORBIDDEN:
        with pytest.raises(refusals):
            connections[role].execute(statement.encode())
    for connection in connections.values():
        connection.close()

"""The gate looks at what changed, and decides as if it had looked at everything."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shelf import NOON, SQL, STRICT, SUITE, Content, Shelf, content, rows


def test_the_second_night_looks_at_the_new_partition_alone(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {"2024-06-01": content(rows(1, 2))}
    assert shelf.judge(shelf.version(days, ["m"])).statuses == {"readings": "passed"}
    days["2024-06-02"] = content(rows(3, speed=90))
    judging = shelf.judge(shelf.version(days, ["m"]))
    assert judging.statuses == {"readings": "warned"}
    verdict = judging.verdicts["readings"]
    assert verdict["partitions"] == ["2024-06-02"]
    seen = {item["type"]: item["element_count"] for item in verdict["results"]}
    assert seen["expect_column_values_to_not_be_null"] == 1
    [stored] = shelf.owner.execute(
        "select partitions from ops.verdicts order by verdict_id desc limit 1"
    ).fetchall()
    assert stored == (["2024-06-02"],)


def test_last_nights_warning_is_no_warning_of_tonight(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {"2024-06-01": content(rows(1, speed=90)), "2024-05-31": content(rows(7, 8, 9))}
    assert shelf.judge(shelf.version(days, ["m"])).statuses == {"readings": "warned"}
    days["2024-06-02"] = content(rows(3))
    version = shelf.version(days, ["m"])
    assert shelf.judge(version).statuses == {"readings": "passed"}
    kept = shelf.owner.execute(
        "select distinct verdict from ops.judgements where version_id = %s", [version]
    ).fetchall()
    assert {verdict for (verdict,) in kept} == {"passed", "warned"}


def test_a_warning_counts_no_longer_once_the_pipeline_accepts_none(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {"2024-06-01": content(rows(1, speed=90)), "2024-05-31": content(rows(7, 8, 9))}
    shelf.judge(shelf.version(days, ["m"]))
    days["2024-06-02"] = content(rows(3))
    version = shelf.version(days, ["m"])
    shelf.judge(version)
    assert shelf.judge(version, accepted=("passed",)).statuses == {"readings": "warned"}


def test_a_partition_that_was_refused_is_refused_again(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {"2024-06-01": content(rows(1, 2))}
    shelf.judge(shelf.version(days, ["m"]))
    days["2024-06-02"] = content(rows(3, speed=500))
    assert shelf.judge(shelf.version(days, ["m"])).statuses == {"readings": "failed"}
    days["2024-06-03"] = content(rows(4))
    judging = shelf.judge(shelf.version(days, ["m"]))
    assert judging.statuses == {"readings": "failed"}
    assert judging.verdicts["readings"]["partitions"] == ["2024-06-02", "2024-06-03"]
    [broken] = [item for item in judging.verdicts["readings"]["results"] if not item["success"]][
        1:2
    ]
    assert broken["partitions"] == {"2024-06-02": 1}


def test_a_key_of_last_month_is_found_in_tonights_partition(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {f"2024-05-{day:02}": content(rows(*range(100 * day, 100 * day + 50))) for day in (1, 2)}
    shelf.judge(shelf.version(days, ["m"]))
    days["2024-06-01"] = content(rows(150 - 1, 7))
    judging = shelf.judge(shelf.version(days, ["m"]))
    [unique] = [
        item
        for item in judging.verdicts["readings"]["results"]
        if item["type"] == "expect_column_values_to_be_unique"
    ]
    assert not unique["success"]
    assert unique["partitions"] == {"2024-05-01": 1, "2024-06-01": 1}
    assert unique["manner"] == "keys"


def test_two_partitions_that_never_met_are_compared_when_they_do(shelf: Shelf) -> None:
    """Each was accepted beside another content of its neighbour, so neither pair was looked at."""
    shelf.write_suite(*SUITE)
    first, corrected = content(rows(1, 2)), content(rows(3))
    early, late = content(rows(11)), content(rows(2))
    for a, b in ((first, early), (corrected, early), (corrected, late)):
        version = shelf.version({"2024-06-01": a, "2024-06-02": b}, ["m"])
        assert shelf.judge(version).statuses == {"readings": "passed"}
    version = shelf.version({"2024-06-01": first, "2024-06-02": late}, ["m"])
    assert shelf.judge(version).statuses == {"readings": "failed"}


def test_an_edited_suite_is_asked_of_everything(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {"2024-06-01": content(rows(1, speed=60)), "2024-05-31": content(rows(7, 8, 9))}
    version = shelf.version(days, ["m"])
    assert shelf.judge(version).statuses == {"readings": "passed"}
    shelf.write_suite(*STRICT)
    judging = shelf.judge(version)
    assert judging.statuses == {"readings": "failed"}
    assert judging.verdicts["readings"]["partitions"] is None


def test_new_units_are_looked_up_for_all_partitions_and_nothing_else_is(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {"2024-06-01": content(rows(1, unit="m")), "2024-06-02": content(rows(2, unit="ft"))}
    assert shelf.judge(shelf.version(days, ["m", "ft"])).statuses == {"readings": "passed"}
    judging = shelf.judge(shelf.version(days, ["m"]))
    [result] = judging.verdicts["readings"]["results"]
    assert (result["type"], result["partitions"]) == (SQL, {"2024-06-02": 1})


def test_the_same_version_is_judged_again_for_the_moment_alone(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    version = shelf.version({"2024-06-01": content(rows(1, 2))}, ["m"])
    shelf.judge(version)
    judging = shelf.judge(version, NOON + timedelta(days=1))
    verdict = judging.verdicts["readings"]
    assert {item["type"] for item in verdict["results"]} == {"expect_column_max_to_be_between"}
    assert verdict["statistics"]["unchanged"] == len(SUITE) - 2
    assert shelf.judge(version, NOON + timedelta(days=9)).statuses == {"readings": "failed"}


def test_a_run_that_judges_again_looks_again_at_the_same(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {"2024-06-01": content(rows(1, 2))}
    shelf.judge(shelf.version(days, ["m"]))
    days["2024-06-02"] = content(rows(3))
    version = shelf.version(days, ["m"])
    first = shelf.judge(version)
    shelf.runs -= 1
    again = shelf.judge(version)
    assert again.context.run.run_id == first.context.run.run_id
    assert again.verdicts["readings"]["partitions"] == ["2024-06-02"]


def test_a_dropped_version_is_no_basis_any_more(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    days = {"2024-06-01": content(rows(1, 2))}
    before = shelf.version(days, ["m"])
    shelf.judge(before)
    shelf.owner.execute("delete from ops.versions where version_id = %s", [before])
    days["2024-06-02"] = content(rows(3))
    judging = shelf.judge(shelf.version(days, ["m"]))
    assert judging.verdicts["readings"]["partitions"] is None


def test_the_newest_row_is_known_when_its_partition_is_corrected_away(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    old = NOON - timedelta(days=9)
    days = {"2024-05-23": content(rows(1, seen=old)), "2024-06-01": content(rows(2))}
    assert shelf.judge(shelf.version(days, ["m"])).statuses == {"readings": "passed"}
    days["2024-06-01"] = content(rows(2, seen=old))
    judging = shelf.judge(shelf.version(days, ["m"]))
    assert judging.statuses == {"readings": "failed"}
    late = [item for item in judging.verdicts["readings"]["results"] if not item["success"]]
    assert [item["type"] for item in late] == ["expect_column_max_to_be_between"]


def test_what_is_asked_of_each_partition_names_the_one_that_is_wrong(shelf: Shelf) -> None:
    """Two errors that cancel each other out are two errors."""
    shelf.write_suite(*SUITE)
    days = {
        "2024-06-01": content(rows(1, 2), loaded=3),
        "2024-06-02": content(rows(4, 5), loaded=1),
    }
    judging = shelf.judge(shelf.version(days, ["m"]))
    [count] = [
        item
        for item in judging.verdicts["readings"]["results"]
        if item["type"] == "expect_table_row_count_to_equal"
    ]
    assert count["partitions"] == {"2024-06-01": 1, "2024-06-02": 1}
    days["2024-06-02"] = content(rows(4, 5))
    judging = shelf.judge(shelf.version(days, ["m"]))
    [count] = [
        item
        for item in judging.verdicts["readings"]["results"]
        if item["type"] == "expect_table_row_count_to_equal"
    ]
    assert (count["observed"], count["bounds"]) == (2, {"value": 3})


# Anything that can happen to a pipeline ----------------------------------------------------------

GOOD, FAST, WARM, TAKEN, LOST, FOREIGN, FUTURE, EMPTY = range(8)
UNITS = (("m",), ("m", "ft"), ("ft",))


@dataclass
class World:
    """What the source has said so far, and what a gate ought to say of it."""

    days: dict[str, Content] = field(default_factory=dict)
    past: dict[str, list[Content]] = field(default_factory=dict)
    used: list[int] = field(default_factory=list)
    units: tuple[str, ...] = ("m",)
    limit: float = 100
    as_of: datetime = NOON

    def make(self, kind: int, pick: int) -> Content:
        key = len(self.used) + 1
        self.used.append(key)
        shown = rows(key, 10_000 + key)
        match kind:
            case 1:
                shown += rows(20_000 + key, speed=150)
            case 2:
                shown += rows(20_000 + key, speed=90)
            case 3:
                shown += rows(self.used[pick % len(self.used)])
            case 5:
                shown += rows(20_000 + key, unit="yd")
            case 6:
                shown += rows(20_000 + key, seen=NOON + timedelta(days=40))
            case 7:
                shown = []
        return content(shown, len(shown) + (kind == LOST))

    def put(self, day: str, held: Content) -> None:
        self.days[day] = held
        self.past.setdefault(day, []).append(held)

    def act(self, what: str, kind: int, pick: int) -> None:
        known = sorted(self.past)
        day = known[pick % len(known)] if known else "2024-01-01"
        match what:
            case "correct":
                self.put(day, self.make(kind, pick))
            case "revert" if known:
                self.put(day, self.past[day][pick % len(self.past[day])])
            case "withdraw" if len(self.days) > 1:
                self.days.pop(day, None)
            case "units":
                self.units = UNITS[pick % 3]
            case "suite":
                self.limit = 50 if self.limit == 100 else 100
            case "wait":
                self.as_of = NOON + timedelta(days=pick % 3)
            case _:
                self.put(f"2024-01-{len(known) + 1:02}", self.make(kind, pick))

    def status(self) -> str:
        """Computed without a database, from what the suite says."""
        shown = [row for held in self.days.values() for row in held.rows]
        keys, speeds = [row[0] for row in shown], [row[1] for row in shown]
        moments = [(row[3], row[2]) for row in shown]
        newest = max((row[3] for row in shown), default=None)
        good = (
            len(set(keys)) == len(keys)
            and len(set(moments)) == len(moments)
            and all(0 <= speed <= self.limit for speed in speeds)
            and all(row[2] in self.units for row in shown)
            and all(len(held.rows) == held.loaded for held in self.days.values())
            and newest is not None
            and self.as_of - timedelta(hours=48) <= newest <= self.as_of + timedelta(hours=24)
            and sum(speeds) / len(speeds) <= 60
        )
        return "accepted" if good else "failed"


ACTIONS = st.tuples(
    st.sampled_from(
        ["add", "add", "add", "correct", "correct", "revert", "withdraw", "units", "suite", "wait"]
    ),
    st.sampled_from([GOOD] * 6 + [FAST, WARM, TAKEN, TAKEN, LOST, FOREIGN, FUTURE, EMPTY]),
    st.integers(0, 50),
)


@pytest.mark.slow
@settings(
    max_examples=12,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=st.lists(ACTIONS, min_size=3, max_size=10))
def test_whatever_happens_the_gate_decides_as_if_it_had_looked_at_everything(
    shelf: Shelf, actions: list[tuple[str, int, int]]
) -> None:
    shelf.owner.execute("truncate ops.judgements, ops.partition_extremes")
    world = World()
    world.put("2024-01-01", world.make(GOOD, 0))
    for what, kind, pick in actions:
        world.act(what, kind, pick)
        if not world.days:
            continue
        shelf.write_suite(*(SUITE if world.limit == 100 else STRICT))
        version = shelf.version(world.days, world.units)
        found = accepted(shelf.judge(version, world.as_of).statuses)
        assert found == accepted(shelf.judge_everything(version, world.as_of).statuses)
        assert found == world.status(), (what, kind, pick)


def accepted(statuses: Mapping[str, str]) -> str:
    status = statuses["readings"]
    return "accepted" if status in ("passed", "warned") else status

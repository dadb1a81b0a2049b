"""The gate looks at what changed, and decides as if it had looked at everything."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from effort import few
from hypothesis import given
from shelf import NOON, SQL, STRICT, SUITE, Shelf, content, rows
from world import HISTORIES, Action, Kind, World


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


def test_extremes_go_with_the_last_segment_that_has_the_partition(shelf: Shelf) -> None:
    shelf.write_suite(*SUITE)
    shelf.judge(
        shelf.version({"2024-06-01": content(rows(1)), "2024-06-02": content(rows(2))}, ["m"])
    )
    [(segment, key)] = shelf.owner.execute(
        "select relation_name, partition_key from ops.segment_partitions where partition = '2024-06-01'"
    ).fetchall()
    shelf.owner.execute(
        "insert into ops.segment_partitions "
        "select relation_name, 'again', partition_key, 1 from ops.segment_partitions "
        "where partition = '2024-06-01'"
    )
    kept = "select count(*) from ops.partition_extremes where partition_key = %s"
    for partition, left in (("2024-06-01", 1), ("again", 0)):
        shelf.owner.execute(
            "delete from ops.segment_partitions where relation_name = %s and partition = %s",
            [segment, partition],
        )
        assert shelf.owner.execute(kept, [key]).fetchone() == (left,)
    shelf.owner.execute("delete from ops.view_segments where segment_name = %s", [segment])
    shelf.owner.execute("delete from ops.relations where relation_name = %s", [segment])
    assert shelf.owner.execute("select count(*) from ops.partition_extremes").fetchone() == (0,)


# Anything that can happen -----------------------------------------------------------------------


@pytest.mark.slow
@few(6)
@given(actions=HISTORIES)
def test_whatever_happens_the_gate_decides_as_if_it_had_looked_at_everything(
    shelf: Shelf, actions: list[Action]
) -> None:
    shelf.owner.execute("truncate ops.judgements, ops.partition_extremes")
    world = World()
    world.put("2024-01-01", world.make(Kind.GOOD, 0))
    for action in actions:
        world.act(*action)
        if not world.days:
            continue
        shelf.write_suite(*(SUITE if world.limit == 100 else STRICT))
        version = shelf.version(world.days, world.units)
        found = is_accepted(shelf.judge(version, world.as_of).statuses)
        assert found == is_accepted(shelf.judge_everything(version, world.as_of).statuses)
        assert found == world.is_good(), action


def is_accepted(statuses: Mapping[str, str]) -> bool:
    return statuses["readings"] in ("passed", "warned")

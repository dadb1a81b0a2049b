"""Tonight's gate costs what is new: of the history it reads the rows that share a key, and no other."""

from datetime import date, timedelta

import pytest
from shelf import NOON, SUITE, Shelf, content, rows

Counters = tuple[int, int, int]


def counters(shelf: Shelf) -> dict[str, Counters]:
    """segment → sequential scans, rows that they read, rows fetched by an index."""
    # What a session has counted is told when it is asked to, or when it ends, as those of gates do.
    for session in (shelf.builder, shelf.runner):
        session.execute("select pg_stat_force_next_flush()")
        session.execute("select 1")
    shelf.owner.execute("select pg_stat_clear_snapshot()")
    found = shelf.owner.execute(
        "select relname, seq_scan, seq_tup_read, idx_tup_fetch from pg_stat_user_tables "
        "where schemaname = 'store' and relname like 'readings%'"
    ).fetchall()
    return {name: (scans, read, fetched) for name, scans, read, fetched in found}


@pytest.mark.parametrize("history", [20, 200])
def test_a_longer_history_is_not_read_and_costs_nothing(shelf: Shelf, history: int) -> None:
    shelf.write_suite(*(line for line in SUITE if "mean" not in line))
    days = {
        str(date(2023, 1, 1) + timedelta(days=day)): content(
            rows(*range(day * 1000, day * 1000 + 50), seen=NOON - timedelta(days=400))
        )
        for day in range(history)
    }
    days["2024-05-31"] = content(rows(7_000_000, seen=NOON + timedelta(seconds=7_000_000)))
    assert shelf.judge(shelf.version(days, ["m"])).statuses == {"readings": "passed"}
    [(old, before)] = counters(shelf).items()
    days["2024-06-01"] = content(rows(*range(8_000_000, 8_000_005), 10_007))
    judging = shelf.judge(shelf.version(days, ["m"]))
    assert judging.statuses == {"readings": "failed"}, "a key of day 10 came again"
    read = counters(shelf)
    scans, sequentially, by_index = (
        now - then for now, then in zip(read.pop(old), before, strict=True)
    )
    assert (scans, sequentially) == (0, 0)
    assert 0 < by_index < 20
    [(_, new, _)] = read.values()
    # Six rows, by each query that looks at them.
    assert 6 <= new <= 6 * 60

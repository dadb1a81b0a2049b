import pytest

from orchestration.publication.grace import (
    Occupant,
    Patience,
    extend_xid,
    holders_back,
    long_reader,
    may_see_before,
)

EPOCH = 2**32


def session(
    xmin: int | None, horizon: int, *, xid: int | None = None, here: bool = True
) -> Occupant:
    return Occupant("session", "7", "ana", "psql", None, horizon, xmin, xid, can_read_here=here)


@pytest.mark.parametrize(
    ("full", "horizon"),
    [
        (1000, 1001),
        (EPOCH - 5, EPOCH + 5),
        (EPOCH + 5, EPOCH - 5),
        (3 * EPOCH + 2**31, 3 * EPOCH + 2**32 - 10),
        (5 * EPOCH + 3, 5 * EPOCH + 3),
    ],
    ids=["plain", "before a wrap", "taken after the horizon", "far behind", "equal"],
)
def test_a_short_transaction_id_becomes_the_long_one_it_was(full: int, horizon: int) -> None:
    assert extend_xid(full % EPOCH, horizon) == full


@pytest.mark.parametrize("flipped_by", [500, EPOCH - 1, EPOCH, 7 * EPOCH + 2])
def test_only_snapshots_from_before_the_end_of_the_flip_may_miss_it(flipped_by: int) -> None:
    horizon = flipped_by + 100
    for distance, waits in ((-50, True), (0, True), (1, False), (99, False)):
        occupant = session((flipped_by + distance) % EPOCH, horizon)
        assert bool(may_see_before([occupant], flipped_by)) is waits, distance


def test_a_session_of_another_database_or_without_a_snapshot_sees_nothing_here() -> None:
    assert may_see_before([session(5, 100, here=False), session(None, 100, xid=5)], 50) == []


def test_a_pointer_restored_from_a_busier_server_keeps_nobody_waiting() -> None:
    assert may_see_before([session(5, 100)], 10**9) == []


def test_open_writers_of_any_database_hold_snapshots_back() -> None:
    writer = session(None, 100, xid=5, here=False)
    assert holders_back([writer, session(60, 100, xid=60)], 50) == [writer]


def test_the_failure_names_a_few_and_counts_the_rest() -> None:
    failure = long_reader([session(1, 9) for _ in range(5)], Patience(wait_s=2))
    assert failure.transient
    assert failure.message.count("pid 7, user ana, application 'psql'") == 3
    assert "and 2 more" in failure.message

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingestion.partitions import SNAPSHOT, Partition, day_windows

words = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
windows = st.one_of(st.just(SNAPSHOT), st.dates().map(date.isoformat))
partitions = st.builds(
    lambda source, name, window, revision: Partition(f"{source}.{name}", window, revision),
    words,
    words,
    windows,
    st.integers(1, 999_999_999),
)


@given(partitions)
def test_a_partition_survives_being_written_and_read(partition: Partition) -> None:
    assert Partition.parse(str(partition)) == partition
    assert ":" not in str(partition)


@given(st.text())
def test_any_text_is_a_partition_that_reads_back_the_same_or_a_value_error(text: str) -> None:
    try:
        partition = Partition.parse(text)
    except ValueError:
        return
    assert str(partition) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "flights.weather",
        "flights.weather/2013-02-12",
        "flights.weather/2013-02-12@0",
        "flights.weather/2013-02-12@01",
        "flights.weather/2013-02-30@1",
        "flights.weather/2013-2-3@1",
        "weather/2013-02-12@1",
        "flights:weather/2013-02-12@1",
        "flights.weather/2013-02-12@1\n",
        "flights.weather/../x@1",
        "flights.weather/2013-02-12@1@2",
    ],
)
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a|there is no day"):
        Partition.parse(text)


def test_a_day_window_has_a_day_and_a_snapshot_has_none() -> None:
    assert Partition.parse("flights.weather/2013-02-12@3").day == date(2013, 2, 12)
    assert Partition("flights.planes", SNAPSHOT).day is None
    assert (
        str(Partition("flights.planes", SNAPSHOT).with_revision(7)) == "flights.planes/snapshot@7"
    )


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)), st.integers(0, 800))
def test_a_range_names_each_of_its_days_once_in_order(first: date, length: int) -> None:
    last = first + timedelta(days=length)
    windows = day_windows(f"{first}..{last}")
    assert len(windows) == length + 1
    assert windows == sorted(set(windows))
    assert (windows[0], windows[-1]) == (first.isoformat(), last.isoformat())


def test_a_single_day_is_a_range_of_one() -> None:
    assert day_windows("2013-01-31") == ["2013-01-31"]
    assert day_windows("2013-01-31..2013-02-01") == ["2013-01-31", "2013-02-01"]


@pytest.mark.parametrize(
    ("text", "what_to_do"),
    [
        ("2013-02-30", "look at the calendar"),
        ("2013-1-1", "write it like 2013-02-12"),
        ("2013-01-02..2013-01-01", "write the earlier day first"),
        ("2013-01-01..", "write it like 2013-02-12"),
        ("1900-01-01..2013-01-01", "ask for at most 10000"),
        ("", "write it like 2013-02-12"),
    ],
)
def test_a_wrong_range_is_refused_with_what_to_write(text: str, what_to_do: str) -> None:
    with pytest.raises(ValueError, match=what_to_do):
        day_windows(text)

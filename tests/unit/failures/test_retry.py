import statistics

import pytest

from orchestration.errors import DestinationFailure, SourceFailure
from orchestration.failures.backoff import CAP_S, backoff_s, ceiling_s, pause_s


@pytest.fixture(autouse=True)
def _usual_base(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_RETRY_BASE_SECONDS", raising=False)


def limited(wait: float | None) -> SourceFailure:
    return SourceFailure("x", code="source_rate_limited", transient=True, retry_after=wait)


def test_the_ceiling_doubles_and_is_bounded_for_any_attempt() -> None:
    assert [ceiling_s(attempt) for attempt in range(1, 8)] == [1, 2, 4, 8, 16, CAP_S, CAP_S]
    assert ceiling_s(5_000) == CAP_S


def test_the_jitter_is_full() -> None:
    waits = [backoff_s(4) for _ in range(2_000)]
    assert 0 <= min(waits) < 0.4
    assert 7.6 < max(waits) <= 8
    assert 3.6 < statistics.mean(waits) < 4.4


def test_what_was_asked_for_is_waited_out_and_spread() -> None:
    waits = [backoff_s(1, at_least=5) for _ in range(200)]
    assert min(waits) >= 5
    assert max(waits) <= 6
    assert statistics.pstdev(waits) > 0.1


def test_the_longest_wait_of_all_failures_counts() -> None:
    failures = [limited(3), limited(None), DestinationFailure("x", code="y", transient=True)]
    assert 3 <= (pause_s(1, failures, remaining_s=60) or 0) <= 4


def test_a_pause_never_outlasts_the_budget() -> None:
    assert pause_s(1, [limited(10)], remaining_s=10) is None
    assert (pause_s(9, [limited(None)], remaining_s=0.01) or 0) <= 0.01
    assert pause_s(1, [limited(None)], remaining_s=0.0) is None

"""How long to wait before trying again: exponential backoff with full jitter, bounded.

What was asked for (`Retry-After`) is waited out first, unless the budget ends before.
"""

import os
import random
from collections.abc import Iterable

from orchestration.errors import SluiceError

CAP_S = 30.0
_DOUBLINGS = 16


def base_seconds() -> float:
    """The first ceiling in seconds; `SLUICE_RETRY_BASE_SECONDS` shortens it for drills and tests."""
    return float(os.environ.get("SLUICE_RETRY_BASE_SECONDS", "1"))


def ceiling_s(attempt: int) -> float:
    """The longest wait after failed attempt number `attempt` (from 1)."""
    return min(CAP_S, base_seconds() * 2.0 ** min(attempt - 1, _DOUBLINGS))


def backoff_s(attempt: int, *, at_least: float = 0.0) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1), `at_least` and some more.

    Workers that were told the same wait are spread as well.
    """
    # Full jitter spreads workers that failed together; it guards nothing secret.
    return at_least + random.uniform(0, ceiling_s(attempt))  # noqa: S311


def pause_s(attempt: int, errors: Iterable[SluiceError], *, remaining_s: float) -> float | None:
    """Seconds to wait before trying these failures again; None when the budget ends before.

    Never sooner than the longest `retry_after` among them, never past `remaining_s`.
    """
    asked = max((getattr(error, "retry_after", None) or 0.0 for error in errors), default=0.0)
    if asked >= remaining_s:
        return None
    return min(backoff_s(attempt, at_least=asked), remaining_s)

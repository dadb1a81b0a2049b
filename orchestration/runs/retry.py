"""How long to wait before trying again: exponential backoff with full jitter, bounded."""

import os
import random

CAP_S = 30.0


def base_seconds() -> float:
    """The first ceiling in seconds; `SLUICE_RETRY_BASE_SECONDS` shortens it for drills and tests."""
    return float(os.environ.get("SLUICE_RETRY_BASE_SECONDS", "1"))


def backoff_s(attempt: int, *, at_least: float = 0.0) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1); never less than `at_least`."""
    ceiling = min(CAP_S, base_seconds() * 2 ** (attempt - 1))
    # Full jitter spreads workers that failed together; it guards nothing secret.
    return max(at_least, random.uniform(0, ceiling))  # noqa: S311

"""How long tests go on that could go on for ever: `make test` draws a few examples, campaigns draw many."""

import os
from typing import Any

from hypothesis import HealthCheck, Phase, settings

EFFORT = int(os.environ.get("SLUICE_TEST_EFFORT", "1"))


def few(examples: int, **options: Any) -> settings:
    """For examples that take seconds each: not shrunk, for that would take longer than the search."""
    return settings(
        max_examples=examples * EFFORT,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
        **options,
    )

"""How much the tests do that could go on for ever: `make test` draws a few, campaigns do all."""

import os
import random
from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings

Case = TypeVar("Case")
# Another seed draws others. All workers of one run must draw the same.
SEED = os.environ.get("SLUICE_TEST_SEED", "sluice")
EFFORT = int(os.environ.get("SLUICE_TEST_EFFORT", "1"))


def draw(cases: Sequence[Case], usual: int) -> list[Case]:
    """So many of the cases, in their order; more with more effort."""
    wanted = min(len(cases), usual * EFFORT)
    chosen = random.Random(SEED).sample(range(len(cases)), wanted)
    return [cases[number] for number in sorted(chosen)]


def few(examples: int, **options: Any) -> settings:
    """For examples that take seconds each: not shrunk, for that would take longer than the search."""
    return settings(
        max_examples=examples * EFFORT,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
        **options,
    )

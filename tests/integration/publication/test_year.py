"""Night after night and micro-batches: neither the catalogue nor the locks of a query grow with them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_catalogue_relations_and_locks_stay_bounded_over_nights_and_micro_batches() -> None:
    """A small one of what `benchmarks/year.py` simulates; docs/publication.md has the whole year."""
    command = ["benchmarks/year.py", "--nights", "40", "--days", "1", "--batches", "12", "--json"]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    )
    summary: dict[str, Any] = json.loads(done.stdout)["summary"]
    early, late, batches = summary.values()
    # From the second ten nights to the last ten; what is never dropped would have doubled.
    for name, most in (("relations", 1.25), ("pg_class", 1.1), ("pg_attribute", 1.1)):
        assert late[name] <= early[name] * most, name
        assert batches[name] <= late[name] * 1.15, name
    # Two partitioned models, each over two slots of at most sixteen segments, and what is above these.
    assert max(span["locks"] for span in summary.values()) <= 2 * 2 * (16 + 3) + 8

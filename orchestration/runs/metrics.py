"""What ran and what waits, how long, how much and how well: measured from rows, and nothing else.

Durations and failures count attempts at units (a partition, a version), so a retry is seen as one.
Days end at midnight UTC here.
"""

from dataclasses import dataclass, field
from typing import Any

import psycopg

from orchestration.sql.rows import rows_of

Row = dict[str, Any]


@dataclass(frozen=True)
class Metrics:
    """Lists of rows; times in seconds, rates in records per second.

    `stages`: per pipeline, stage and dataset (empty for stages that work on the whole).
    `failures`: the same, by error code. `datasets`: freshness and lag. `runs`: by outcome.
    `inbox`: messages that wait for a run.
    """

    stages: list[Row]
    failures: list[Row]
    datasets: list[Row]
    runs: list[Row]
    inbox: list[Row] = field(default_factory=list)

    def as_json(self) -> dict[str, list[Row]]:
        return {
            "stages": self.stages,
            "failures": self.failures,
            "datasets": self.datasets,
            "runs": self.runs,
            "inbox": self.inbox,
        }


def measure(connection: psycopg.Connection, pipeline: str | None = None) -> Metrics:
    """Metrics of one pipeline, or of all. Any role that may read ops will do."""
    values = {"pipeline": pipeline}
    rates = {
        (row["pipeline"], row["stage"], row["dataset"]): row
        for row in rows_of(connection, "metrics_throughput", values)
    }
    stages = [
        row | _rate(rates.get((row["pipeline"], row["stage"], row["dataset"])))
        for row in rows_of(connection, "metrics_stages", values)
    ]
    return Metrics(
        stages=stages,
        failures=rows_of(connection, "metrics_failures", values),
        datasets=rows_of(connection, "metrics_datasets", values),
        runs=rows_of(connection, "metrics_runs", values),
        inbox=rows_of(connection, "metrics_inbox", values),
    )


def _rate(found: Row | None) -> Row:
    names = ("records", "p50_per_s", "last_per_s")
    return {name: found[name] if found else None for name in names}

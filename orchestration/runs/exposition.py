"""Metrics in Prometheus' text format, version 0.0.4: one HELP and TYPE for each name, labels escaped."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orchestration.runs.metrics import Metrics, Row

_UNIT = ("pipeline", "stage", "dataset")
_QUANTILES = (("0.5", "p50_s"), ("0.95", "p95_s"))


@dataclass
class _Family:
    """All samples of one name; a sample is (suffix, labels, value)."""

    name: str
    kind: str
    text: str
    samples: list[tuple[str, dict[str, Any], float | int | None]] = field(default_factory=list)

    def add(self, labels: Mapping[str, Any], value: float | None, suffix: str = "") -> None:
        self.samples.append((suffix, dict(labels), value))

    def lines(self) -> list[str]:
        known = [sample for sample in self.samples if sample[2] is not None]
        if not known:
            return []
        head = [f"# HELP {self.name} {_escaped_help(self.text)}", f"# TYPE {self.name} {self.kind}"]
        return head + [
            f"{self.name}{suffix}{_shown(labels)} {value}" for suffix, labels, value in known
        ]


def as_prometheus(metrics: Metrics) -> str:
    """The text that a scrape, or the textfile collector, reads; names begin with `sluice_`."""
    families = [
        *_of_stages(metrics.stages),
        _one(
            "sluice_stage_failures_total", "counter",
            "Attempts that failed, or whose worker died (worker_lost).",
            metrics.failures, (*_UNIT, "error_code"), "failures",
        ),
        *(
            _one(f"sluice_dataset_{name}_seconds", "gauge", text, metrics.datasets,
                 ("pipeline", "dataset"), column)
            for name, column, text in (
                ("window_age", "window_age_s", "Time since the newest accepted day ended (UTC)."),
                ("fetched_age", "fetched_age_s", "Time since what is accepted was last fetched."),
                ("publication_lag", "publication_lag_s",
                 "From the end of the newest published day (UTC) to its first publication."),
            )
        ),
        _one("sluice_runs", "gauge", "Runs by outcome, or by status while they have none.",
             metrics.runs, ("pipeline", "outcome"), "runs"),
        _summary("sluice_run_duration_seconds", "From acceptance of a run to its end.",
                 [row for row in metrics.runs if row["p50_s"] is not None],
                 ("pipeline", "outcome"), "runs"),
        _one("sluice_inbox_messages", "gauge", "Messages that wait for a run.",
             metrics.inbox, ("pipeline",), "messages"),
        _one("sluice_inbox_oldest_seconds", "gauge", "For how long the oldest of them has waited.",
             metrics.inbox, ("pipeline",), "oldest_s"),
    ]  # fmt: skip
    return "".join(f"{line}\n" for family in families for line in family.lines())


def _of_stages(rows: Iterable[Row]) -> list[_Family]:
    rows = list(rows)
    return [
        _summary("sluice_stage_duration_seconds", "Duration of successful attempts at one unit.",
                 rows, _UNIT, "succeeded"),
        _one("sluice_stage_last_duration_seconds", "gauge",
             "Duration of the last successful attempt.", rows, _UNIT, "last_s"),
        _one("sluice_stage_attempts_total", "counter", "Attempts at units.",
             rows, _UNIT, "attempts"),
        _one("sluice_stage_retries_total", "counter", "Attempts that were not the first at a unit.",
             rows, _UNIT, "retries"),
        _one("sluice_stage_records_total", "counter", "Records that went through.",
             rows, _UNIT, "records"),
        _one("sluice_stage_records_per_second", "gauge", "Throughput of the last run.",
             rows, _UNIT, "last_per_s"),
    ]  # fmt: skip


def _one(
    name: str, kind: str, text: str, rows: Iterable[Row], labels: Iterable[str], column: str
) -> _Family:
    family, names = _Family(name, kind, text), tuple(labels)
    for row in rows:
        family.add({label: row[label] for label in names}, row[column])
    return family


def _summary(
    name: str, text: str, rows: Iterable[Row], labels: Iterable[str], count: str
) -> _Family:
    family, names = _Family(name, "summary", text), tuple(labels)
    for row in rows:
        own = {label: row[label] for label in names}
        for quantile, column in _QUANTILES:
            family.add(own | {"quantile": quantile}, row[column])
        family.add(own, row["total_s"], "_sum")
        family.add(own, row[count], "_count")
    return family


def _shown(labels: Mapping[str, Any]) -> str:
    inside = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
    return f"{{{inside}}}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escaped_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")

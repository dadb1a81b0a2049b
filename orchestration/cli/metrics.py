"""`sluice metrics`: tables for people, JSON, or Prometheus' text format."""

import sys

from orchestration.cli.output import print_json, print_rows
from orchestration.cli.reading import reading
from orchestration.errors import ConfigurationError
from orchestration.runs.exposition import as_prometheus
from orchestration.runs.metrics import measure


def metrics(*, output_format: str, pipeline: str | None, as_json: bool) -> None:
    if output_format not in {"text", "prometheus"}:
        raise ConfigurationError(
            f"{output_format!r} is not a format; use text or prometheus", code="unknown_format"
        )
    with reading() as connection:
        measured = measure(connection, pipeline)
    if as_json:
        print_json(measured.as_json())
        return
    if output_format == "prometheus":
        sys.stdout.write(as_prometheus(measured))
        return
    print_rows(
        "stages",
        ["pipeline", "stage", "dataset", "p50_s", "p95_s", "last_s", "records", "last_per_s",
         "attempts", "retries"],
        measured.stages,
        "nothing ran yet; run: sluice demo",
    )  # fmt: skip
    print_rows(
        "failures",
        ["pipeline", "stage", "dataset", "error_code", "failures", "last_at"],
        measured.failures,
        "no attempt failed",
    )
    print_rows(
        "datasets",
        ["pipeline", "dataset", "newest_accepted", "newest_published", "window_age", "fetched_age",
         "publication_lag"],
        [
            row
            | {
                name: _age(row[f"{name}_s"])
                for name in ("window_age", "fetched_age", "publication_lag")
            }
            for row in measured.datasets
        ],
        "nothing was accepted yet",
    )  # fmt: skip
    print_rows(
        "runs, from acceptance to their end",
        ["pipeline", "outcome", "runs", "p50_s", "p95_s", "last_s"],
        measured.runs,
        "there is no run yet",
    )
    print_rows(
        "messages that wait",
        ["pipeline", "messages", "oldest"],
        [row | {"oldest": _age(row["oldest_s"])} for row in measured.inbox],
        "no message waits",
    )


def _age(seconds: float | None) -> str | None:
    """Seconds as a person reads them: `42 s`, `3.5 min`, `7.0 h`, `12.3 d`."""
    if seconds is None:
        return None
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"

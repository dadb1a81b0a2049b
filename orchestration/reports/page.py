"""Renders a report as one HTML page that needs nothing else: no network, no script, no other file."""

from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from orchestration.reports.facts import RunReport
from orchestration.reports.plots import sparkline

_OUTCOMES = {
    "published": ("good", "Published"),
    "unchanged": ("good", "Unchanged: what is published is what was asked for"),
    "degraded": ("warn", "Published without some partitions"),
    "held": ("bad", "Held: nothing new is published"),
    "failed": ("bad", "Failed: nothing new is published"),
}


def render_report(report: RunReport) -> str:
    """The page, complete; personal values cannot be in it, since the facts hold none."""
    tone, headline = _OUTCOMES.get(str(report.run.outcome), ("warn", "Not finished yet"))
    return _template().render(
        report=report,
        run=report.run,
        tone=tone,
        headline=headline,
        counts=_counts(report),
        made_at=datetime.now(UTC),
    )


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters |= {"moment": _moment, "number": _number, "bounds": _bounds}
    environment.globals["sparkline"] = sparkline
    return environment.from_string(
        resources.files("orchestration.reports").joinpath("report.html.j2").read_text("utf-8")
    )


def _counts(report: RunReport) -> dict[str, int]:
    """How many expectations came out how."""
    counts = dict.fromkeys(("failed", "error", "waived", "warning", "info", "passed"), 0)
    for verdict in report.verdicts:
        for expectation in verdict.results:
            counts[expectation.status] += 1
    return counts


def _moment(value: Any) -> str:
    if not isinstance(value, datetime):
        return "" if value is None else str(value)
    return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _number(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _bounds(bounds: Any) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in (bounds or {}).items())

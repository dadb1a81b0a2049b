"""The plot of a simulated year: small panels below each other, one line or two in each, as SVG.

It has a ground of its own and dark lines, so it can be read on a page of either colour.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

_WIDTH, _PANEL, _GAP = 720, 96, 38
_LEFT, _RIGHT, _TOP = 64, 16, 30
_COLOURS = ("#1d4e89", "#d06a1f")

Sample = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One figure of every sample; `before` is a second one, from before retention worked."""

    title: str
    value: Callable[[Sample], float]
    before: Callable[[Sample], float] | None = None


LINES = (
    Line(
        "Relations in schema store: after retention (blue), before it (orange)",
        lambda sample: sample["relations"],
        lambda sample: sample["before"]["relations"],
    ),
    Line(
        "Rows of pg_class: after retention (blue), before it (orange)",
        lambda sample: sample["pg_class"],
        lambda sample: sample["before"]["pg_class"],
    ),
    Line("Rows of pg_attribute", lambda sample: sample["pg_attribute"]),
    Line("Locks of a query that joins two published views", lambda sample: sample["locks"]),
    Line(
        "Thousand rows in ops and staging: after retention (blue), before it (orange)",
        lambda sample: sample["ops"] / 1000,
        lambda sample: sample["before"]["ops"] / 1000,
    ),
)


def draw(samples: Sequence[Sample], nights: int) -> str:
    """The panels of `LINES` over days; a mark where nightly runs end and micro-batches begin."""
    height = _TOP + len(LINES) * (_PANEL + _GAP)
    panels = Markup("").join(
        _panel(line, samples, nights, _TOP + place * (_PANEL + _GAP))
        for place, line in enumerate(LINES)
    )
    words = (
        f"{nights} nightly runs, then {len(samples) - nights} days of "
        f"{samples[-1]['runs']} micro-batches"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="12" fill="#222">\n'
        f"<title>{escape(words)}</title>\n"
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>\n{panels}</svg>\n'
    )


def _panel(line: Line, samples: Sequence[Sample], nights: int, top: int) -> Markup:
    series = [[line.value(sample) for sample in samples]]
    if line.before is not None:
        series.append([line.before(sample) for sample in samples])
    greatest = max(max(values) for values in series) or 1
    bottom = top + _PANEL
    drawn = Markup("").join(
        Markup('<polyline fill="none" stroke="{}" stroke-width="1.2" points="{}"/>\n').format(
            colour, _points(values, greatest, bottom)
        )
        for values, colour in reversed(list(zip(series, _COLOURS, strict=False)))
    )
    return Markup(
        '<text x="{left}" y="{head}" font-weight="bold">{title}</text>\n'
        '<path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="#999"/>\n'
        '<text x="{label}" y="{upper}" text-anchor="end">{greatest}</text>\n'
        '<text x="{label}" y="{bottom}" text-anchor="end">0</text>\n'
        "{ticks}{border}{drawn}"
    ).format(
        left=_LEFT,
        head=top - 8,
        title=line.title,
        top=top,
        bottom=bottom,
        right=_WIDTH - _RIGHT,
        label=_LEFT - 6,
        upper=top + 10,
        greatest=f"{greatest:,.0f}" if greatest >= 10 else f"{greatest:.1f}",
        ticks=_ticks(len(samples), bottom),
        border=_border(len(samples), nights, top, bottom),
        drawn=drawn,
    )


def _points(values: Sequence[float], greatest: float, bottom: int) -> str:
    return " ".join(
        f"{_place(position, len(values)):.1f},{bottom - value / greatest * _PANEL:.1f}"
        for position, value in enumerate(values)
    )


def _place(position: float, count: int) -> float:
    return _LEFT + position * (_WIDTH - _LEFT - _RIGHT) / max(1, count - 1)


def _ticks(count: int, bottom: int) -> Markup:
    step = max(1, round(count / 8 / 10) * 10)
    return Markup("").join(
        Markup('<text x="{:.1f}" y="{}" text-anchor="middle" fill="#666">{}</text>\n').format(
            _place(day - 1, count), bottom + 14, f"day {day}"
        )
        for day in (1, *range(step, count, step))
    )


def _border(count: int, nights: int, top: int, bottom: int) -> Markup:
    if nights >= count:
        return Markup("")
    return Markup(
        '<path d="M{x:.1f} {top}V{bottom}" stroke="#999" stroke-dasharray="3 3"/>\n'
    ).format(x=_place(nights - 0.5, count), top=top, bottom=bottom)

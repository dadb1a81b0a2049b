"""Small plots as inline SVG: drawn with the colours of the text around them, described in words."""

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT, _MARGIN = 120, 24, 3


def sparkline(values: Sequence[float | None], label: str) -> Markup:
    """A line through the values, the last one marked; gaps where a value is None.

    Empty for fewer than two values: one point is no trend.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Markup("")
    points = _points(values, min(known), max(known))
    lines = "".join(
        f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in part)}"/>'
        for part in _parts(points)
    )
    last_x, last_y = [point for point in points if point is not None][-1]
    words = f"{label}: {', '.join('none' if v is None else f'{v:g}' for v in values)}"
    return Markup(
        '<svg class="spark" role="img" width="{w}" height="{h}" viewBox="0 0 {w} {h}">'
        "<title>{words}</title>{lines}<circle cx='{x:.1f}' cy='{y:.1f}' r='2'/></svg>"
    ).format(w=_WIDTH, h=_HEIGHT, words=words, lines=Markup(lines), x=last_x, y=last_y)  # noqa: S704


def _points(
    values: Sequence[float | None], least: float, greatest: float
) -> list[tuple[float, float] | None]:
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(values) - 1)
    span = (greatest - least) or 1.0
    return [
        None
        if value is None
        else (
            _MARGIN + position * step,
            _HEIGHT - _MARGIN - (value - least) / span * (_HEIGHT - 2 * _MARGIN),
        )
        for position, value in enumerate(values)
    ]


def _parts(
    points: Sequence[tuple[float, float] | None],
) -> list[list[tuple[float, float]]]:
    parts: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is None:
            parts.append([])
        else:
            parts[-1].append(point)
    return [part for part in parts if len(part) > 1]

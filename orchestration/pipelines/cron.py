"""Whether a text is a cron expression of five fields; what is due is decided elsewhere."""

import re

_FIELDS = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day of the month", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 7),
)
_PART = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?")


def check_cron(expression: str) -> str:
    """The expression itself. Raises `ValueError` that names the first field which cannot be read.

    Numbers, `*`, `a-b`, `*/n`, `a-b/n` and lists of them; no names and no `@daily`, which Render's
    cron jobs do not know either.
    """
    fields = expression.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(
            f"a cron expression has 5 fields, this has {len(fields)}; "
            "write minute, hour, day, month and weekday"
        )
    for text, (name, low, high) in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            _check_part(part, name, low, high)
    return " ".join(fields)


def _check_part(part: str, name: str, low: int, high: int) -> None:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} cannot be the {name} of a cron expression")
    first, last, step = (None if group is None else int(group) for group in match.groups())
    bounds = [number for number in (first, last) if number is not None]
    if any(not low <= number <= high for number in bounds) or bounds != sorted(bounds):
        raise ValueError(f"{part!r} cannot be the {name} of a cron expression ({low} to {high})")
    if step == 0 or (step is not None and first is not None and last is None):
        raise ValueError(f"{part!r}: a step follows * or a range, and is at least 1")

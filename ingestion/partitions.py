"""The name of what one extraction fetches: a closed window of a resource, at a revision.

A name and its value are the same thing in two forms: `Partition.parse(str(p)) == p`, always. No
part contains a colon, so that names can be joined with one.
"""

import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Self

SNAPSHOT = "snapshot"
LONGEST_RANGE_DAYS = 10_000

_RESOURCE = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*", re.ASCII)
_NAME = re.compile(r"([^/@:\s]+)/([^/@:\s]+)@([1-9][0-9]{0,8})", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


@dataclass(frozen=True, order=True, slots=True)
class Partition:
    """`<resource>/<window>@<revision>`, e.g. `flights.weather/2013-02-12@1`.

    `resource` is `<source>.<name>`, `window` a day (YYYY-MM-DD) or `snapshot`, `revision` counts
    from 1. Raises `ValueError` for anything else.
    """

    resource: str
    window: str
    revision: int = 1

    def __post_init__(self) -> None:
        if not _RESOURCE.fullmatch(self.resource):
            raise ValueError(f"not a resource: {self.resource!r}; write it like flights.weather")
        if self.window != SNAPSHOT:
            parse_day(self.window)
        if not 1 <= self.revision <= 999_999_999:
            raise ValueError(f"not a revision: {self.revision!r}; revisions count from 1")

    def __str__(self) -> str:
        return f"{self.resource}/{self.window}@{self.revision}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The partition of this name. Raises `ValueError`."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise ValueError(
                f"not a partition: {text!r}; write it like flights.weather/2013-02-12@1"
            )
        return cls(match[1], match[2], int(match[3]))

    @property
    def day(self) -> date | None:
        """The window's day, or None for a snapshot."""
        return None if self.window == SNAPSHOT else date.fromisoformat(self.window)

    def with_revision(self, revision: int) -> Self:
        """The same window at another revision."""
        return replace(self, revision=revision)


def parse_day(text: str) -> date:
    """The day written as YYYY-MM-DD. Raises `ValueError` that says what to write."""
    if _DAY.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            raise ValueError(f"there is no day {text}; look at the calendar") from None
    raise ValueError(f"not a day: {text!r}; write it like 2013-02-12")


def day_windows(text: str) -> list[str]:
    """The windows of a day or of a range `first..last`, both ends included, in order.

    Raises `ValueError` for anything else, for a range that runs backwards, and for one of more than
    10,000 days.
    """
    first_text, dots, last_text = text.strip().partition("..")
    first = parse_day(first_text.strip())
    last = parse_day(last_text.strip()) if dots else first
    if last < first:
        raise ValueError(f"the range {text!r} ends before it begins; write the earlier day first")
    days = (last - first).days + 1
    if days > LONGEST_RANGE_DAYS:
        raise ValueError(
            f"the range {text!r} has {days} days; ask for at most {LONGEST_RANGE_DAYS}"
        )
    return [(first + timedelta(days=offset)).isoformat() for offset in range(days)]

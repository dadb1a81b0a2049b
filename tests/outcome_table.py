"""Reads docs/outcomes.md: each row of its tables is a claim about a fault, and a test's input.

A row that is not written in the words below is refused, so that a claim cannot escape its test.
"""

import re
from dataclasses import dataclass
from typing import Any

from harness import CHECKOUT

from ingestion.demo_api.faults import Fault

PAGE = CHECKOUT / "docs" / "outcomes.md"
COLUMNS = (
    "fault", "where", "how often", "outcome", "failure", "exit code", "quarantined",
    "readers see", "what to do",
)  # fmt: skip
PUBLISHED_DAY, NEW_DAY = "2013-01-01", "2013-01-02"

_DAYS = {"a new day": NEW_DAY, "a published day": PUBLISHED_DAY}
_OFTEN: dict[str, dict[str, Any]] = {
    "1 request": {"times": 1},
    "2 requests": {"times": 2},
    "every request": {},
    "one record": {"page": 1, "position": 7},
    "every record": {},
    "page 1, one read": {"page": 1, "times": 1},
    "page 1, every read": {"page": 1},
    "until refreshed": {},
}
# Faults that begin with the first record of a page; in all others no position is every record.
_ALL_RECORDS = (Fault.MISSING_FIELD, Fault.EXTRA_FIELD)
_SEEN = (
    "the day, whole",
    "the day without the quarantined records",
    "all but this resource's day",
    "what they saw before",
)
_FAILURE = re.compile(r"(\w+): (\w+) \((\w+)\)")
_QUARANTINED = re.compile(r"(\d+) (records|partition): (\S+)")


@dataclass(frozen=True, kw_only=True)
class Failure:
    kind: str
    code: str
    stage: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row. `fault` is None for a change of the source's content, which `name` tells."""

    name: str
    fault: Fault | None
    resource: str
    day: str
    often: str
    outcome: str
    failure: Failure | None
    exit_code: int
    records: dict[str, int]
    partitions: dict[str, int]
    readers_see: str
    what_to_do: str

    def __str__(self) -> str:
        day = "new" if self.day == NEW_DAY else "published"
        return f"{self.name}-{self.resource}-{day}-{self.often}".replace(" ", "_")

    @property
    def parameters(self) -> dict[str, Any]:
        """Where and how often the fault strikes, as `DemoServer.set_fault` takes it."""
        return {"resource": self.resource, "date": self.day, **_OFTEN[self.often]}

    @property
    def refreshes(self) -> bool:
        """Whether the command of this row fetches what is there already."""
        return self.day == PUBLISHED_DAY


def read_rows() -> list[Row]:
    """All rows of the page. Raises ValueError for one that says what no test understands."""
    rows = []
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != len(COLUMNS) or _is_head(cells):
            continue
        try:
            rows.append(_read(dict(zip(COLUMNS, cells, strict=True))))
        except (KeyError, ValueError) as error:
            raise ValueError(f"{PAGE.name}:{number}: no test understands {error}") from error
    return rows


def _is_head(cells: list[str]) -> bool:
    return cells == list(COLUMNS) or set("".join(cells)) <= {"-", ":"}


def _read(cells: dict[str, str]) -> Row:
    resource, _, day = cells["where"].partition(", ")
    records, partitions = _read_quarantined(cells["quarantined"])
    named = cells["fault"]
    fault = Fault(named.strip("`")) if named.startswith("`") else None
    if cells["how often"] == "every record" and fault not in _ALL_RECORDS:
        raise ValueError(f"every record of {named}")
    if cells["readers see"] not in _SEEN:
        raise ValueError(cells["readers see"])
    _OFTEN[cells["how often"]]
    return Row(
        name=named.strip("`"),
        fault=fault,
        resource=resource,
        day=_DAYS[day],
        often=cells["how often"],
        outcome=cells["outcome"],
        failure=_read_failure(cells["failure"]),
        exit_code=int(cells["exit code"]),
        records=records,
        partitions=partitions,
        readers_see=cells["readers see"],
        what_to_do=cells["what to do"],
    )


def _read_failure(text: str) -> Failure | None:
    if text == "none":
        return None
    found = _FAILURE.fullmatch(text.replace("`", ""))
    if found is None:
        raise ValueError(text)
    return Failure(kind=found[1], code=found[2], stage=found[3])


def _read_quarantined(text: str) -> tuple[dict[str, int], dict[str, int]]:
    """rule → how many records, and rule → how many partitions."""
    records: dict[str, int] = {}
    partitions: dict[str, int] = {}
    for part in text.replace("`", "").split("; ") if text != "nothing" else []:
        found = _QUARANTINED.fullmatch(part.replace("1 record:", "1 records:"))
        if found is None:
            raise ValueError(part)
        (records if found[2] == "records" else partitions)[found[3]] = int(found[1])
    return records, partitions

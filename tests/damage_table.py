"""Reads docs/damage.md: each row of its table is a kind of damage, and a test's input.

A row that is not written in the words below is refused, so that a claim cannot escape its test.
"""

import re
from dataclasses import dataclass

from damaging import CHANGES, FAULTS
from harness import CHECKOUT

PAGE = CHECKOUT / "docs" / "damage.md"
COLUMNS = ("damage", "what the source sends", "caught by", "severity", "stopped", "what to do")

_CAUGHT = re.compile(r"(?:(\d+) records|(partition|version|answer)): `([^`]+)`")
_STOPPED = re.compile(r"(\w+): `(\w+)` \((\w+)\)")


@dataclass(frozen=True, kw_only=True)
class Damage:
    """One row. `records` counts those kept out by rule; `partition` and `version` are broken rules.

    `answer` is the error code of an answer that was refused whole. `severity` is that of the rule
    named first. `stopped` is kind, code and stage of the failure.
    """

    name: str
    records: dict[str, int]
    partition: frozenset[str]
    version: frozenset[str]
    answer: str | None
    first_rule: str
    severity: str
    stopped: tuple[str, str, str]
    what_to_do: str

    def __str__(self) -> str:
        return self.name.replace(" ", "_")

    @property
    def rules(self) -> set[str]:
        """All that is named, as `sluice quarantine list` and the report write it."""
        return {*self.records, *self.partition, *self.version, *filter(None, [self.answer])}


def read_damage() -> list[Damage]:
    """All rows of the page. Raises ValueError for one that says what no test understands."""
    found = []
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), start=1):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        is_head = cells == list(COLUMNS) or set("".join(cells)) <= {"-", ":"}
        if not line.startswith("|") or len(cells) != len(COLUMNS) or is_head:
            continue
        try:
            found.append(_read(dict(zip(COLUMNS, cells, strict=True))))
        except (KeyError, ValueError) as error:
            raise ValueError(f"{PAGE.name}:{number}: no test understands {error}") from error
    return found


def _read(cells: dict[str, str]) -> Damage:
    if cells["damage"] not in {*CHANGES, *FAULTS}:
        raise ValueError(cells["damage"])
    named: dict[str, list[tuple[str, str]]] = {"": [], "partition": [], "version": [], "answer": []}
    caught = [_CAUGHT.fullmatch(part) for part in cells["caught by"].split("; ")]
    stopped = _STOPPED.fullmatch(cells["stopped"])
    if stopped is None or not all(caught):
        raise ValueError(f"{cells['caught by']}, {cells['stopped']}")
    for part in filter(None, caught):
        named[part[2] or ""].append((part[3], part[1] or "1"))
    answers = [rule for rule, _ in named["answer"]]
    return Damage(
        name=cells["damage"],
        records={rule: int(count) for rule, count in named[""]},
        partition=frozenset(rule for rule, _ in named["partition"]),
        version=frozenset(rule for rule, _ in named["version"]),
        answer=answers[0] if answers else None,
        first_rule=next(part[3] for part in caught if part),
        severity=cells["severity"],
        stopped=(stopped[1], stopped[2], stopped[3]),
        what_to_do=cells["what to do"],
    )

"""Changes what a day or a snapshot contains, as a service does when it corrects its history.

A correction is applied whole or refused: a match that finds no record, or a field that the resource
does not have, changes nothing. Corrections of one day add up until they are removed.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ingestion.demo_api.data import crew_email_of, read_records
from ingestion.demo_api.resources import CREW_EMAIL, Record, Resource, Value

FieldName = Annotated[str, Field(min_length=1)]
Match = dict[FieldName, Value]
Key = tuple[Resource, dt.date | None]


class CorrectionRefusedError(ValueError):
    """The correction does not fit the current content; nothing was changed."""


class Change(BaseModel):
    """Set fields of each record that equals `match` in all its fields; `{}` matches every one."""

    model_config = ConfigDict(extra="forbid", strict=True)

    match: Match
    set: Annotated[dict[FieldName, Value], Field(min_length=1)]


class Correction(BaseModel):
    """What happens to the records of a day (or, date null, a snapshot): change, remove, then add.

    Added records come last; fields they leave out are null, and a flight's `crew_email` is derived.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    resource: Resource
    date: dt.date | None = None
    changes: list[Change] = []
    remove: list[Match] = []
    add: list[Annotated[Record, Field(min_length=1)]] = []

    @model_validator(mode="after")
    def _fits_the_resource(self) -> "Correction":
        if self.resource.is_dated and self.date is None:
            raise ValueError(f"{self.resource} is served by day: give a date")
        if not self.resource.is_dated and self.date is not None:
            raise ValueError(f"{self.resource} is a snapshot: leave the date out")
        if not (self.changes or self.remove or self.add):
            raise ValueError("nothing to correct: give changes, remove or add")
        known = set(self.resource.field_names)
        named: list[Mapping[str, Value]] = [*self.remove, *self.add]
        for change in self.changes:
            named += (change.match, change.set)
        if not all(known.issuperset(fields) for fields in named):
            raise ValueError(f"fields of {self.resource} are: {', '.join(sorted(known))}")
        return self


@dataclass(frozen=True, slots=True)
class Effect:
    """How many records a correction touched."""

    changed: int
    removed: int
    added: int


class Corrections:
    """The corrections in force and the content they lead to. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._applied: list[Correction] = []
        self._content: dict[Key, tuple[Record, ...]] = {}

    def apply(self, correction: Correction) -> Effect:
        """Put a correction into force. Raises CorrectionRefusedError."""
        key = (correction.resource, correction.date)
        with self._lock:
            before = self._content.get(key)
            if before is None:
                before = read_records(*key)
            self._content[key], effect = _corrected(before, correction)
            self._applied.append(correction)
        return effect

    def records(self, resource: Resource, date: dt.date | None) -> tuple[Record, ...]:
        """Return the current content; like `read_records`, the records must not be changed."""
        with self._lock:
            corrected = self._content.get((resource, date))
        return read_records(resource, date) if corrected is None else corrected

    def is_corrected(self, resource: Resource, date: dt.date | None) -> bool:
        """Tell whether a correction is in force for this content."""
        with self._lock:
            return (resource, date) in self._content

    def in_force(self) -> list[Correction]:
        """Return the corrections in the order in which they were applied."""
        with self._lock:
            return list(self._applied)

    def clear(self) -> None:
        """Restore the original content everywhere."""
        with self._lock:
            self._applied.clear()
            self._content.clear()


def _corrected(
    before: Sequence[Record], correction: Correction
) -> tuple[tuple[Record, ...], Effect]:
    records = list(before)
    changed = removed = 0
    for change in correction.changes:
        hits = _find(records, change.match, correction)
        for position in hits:
            records[position] = records[position] | change.set
        changed += len(hits)
    for match in correction.remove:
        gone = set(_find(records, match, correction))
        records = [record for at, record in enumerate(records) if at not in gone]
        removed += len(gone)
    records += (_complete(correction.resource, record) for record in correction.add)
    return tuple(records), Effect(changed, removed, len(correction.add))


def _find(records: Sequence[Record], match: Match, correction: Correction) -> list[int]:
    hits = [at for at, record in enumerate(records) if match.items() <= record.items()]
    if not hits:
        raise CorrectionRefusedError(
            f"a match on {', '.join(match) or 'every record'} finds no record of "
            f"{correction.resource} {correction.date or 'snapshot'}; look at what is served now"
        )
    return hits


def _complete(resource: Resource, given: Record) -> Record:
    record: Record = dict.fromkeys(resource.field_names) | given
    if resource is Resource.FLIGHTS and CREW_EMAIL not in given:
        record[CREW_EMAIL] = crew_email_of(record)
    return record

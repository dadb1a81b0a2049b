"""Decides which faults a request meets, and counts them down.

A fault is one rule: what goes wrong, for which resource, day and page, how often. A rule whose
parameters do not belong to its fault is refused: a typing error must not look like a passing test.
"""

import datetime as dt
from collections.abc import Callable
from enum import StrEnum
from threading import Lock
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ingestion.demo_api.resources import Resource


class Fault(StrEnum):
    """Everything that can be made to go wrong."""

    SERVER_ERROR = "server_error"
    RATE_LIMITED = "rate_limited"
    TIME_OUT = "time_out"
    TRUNCATED_BODY = "truncated_body"
    INVALID_JSON = "invalid_json"
    MALFORMED_RECORD = "malformed_record"
    MISSING_FIELD = "missing_field"
    EXTRA_FIELD = "extra_field"
    DUPLICATED_PAGE = "duplicated_page"
    SHORT_PAGE = "short_page"
    EXPIRED_TOKEN = "expired_token"  # noqa: S105  (a name, not a token)
    UNSUPPORTED_SCHEMA_VERSION = "unsupported_schema_version"
    NUL_CHARACTER = "nul_character"


# Which optional parameters mean something to which fault.
_PARAMETERS: dict[str, frozenset[Fault]] = {
    "seconds": frozenset({Fault.TIME_OUT, Fault.RATE_LIMITED}),
    "position": frozenset(
        {Fault.MALFORMED_RECORD, Fault.MISSING_FIELD, Fault.EXTRA_FIELD, Fault.NUL_CHARACTER}
    ),
    "field": frozenset(
        {Fault.MALFORMED_RECORD, Fault.MISSING_FIELD, Fault.EXTRA_FIELD, Fault.NUL_CHARACTER}
    ),
}


class FaultRule(BaseModel):
    """One fault and where it strikes. `resource`, `date` and `page` null mean any.

    times: requests it strikes before it is gone, null until removed (duplicated_page: whole reads).
    seconds: how long time_out waits (default 30), what Retry-After says (default 1).
    position: place in the page, from 0; null means every record for missing_field and extra_field,
    the first for malformed_record and nul_character.
    field: the field concerned; null chooses one that fits.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    fault: Fault
    resource: Resource | None = None
    date: dt.date | None = None
    page: Annotated[int, Field(ge=1)] | None = None
    times: Annotated[int, Field(ge=1)] | None = None
    seconds: Annotated[float, Field(ge=0, le=600)] | None = None
    position: Annotated[int, Field(ge=0, lt=500)] | None = None
    field: Annotated[str, Field(min_length=1, max_length=63)] | None = None

    @model_validator(mode="after")
    def _parameters_belong_to_the_fault(self) -> "FaultRule":
        for name, faults in _PARAMETERS.items():
            if getattr(self, name) is not None and self.fault not in faults:
                raise ValueError(
                    f"{name} means nothing to {self.fault}; only to {', '.join(sorted(faults))}"
                )
        if self.date is not None and self.resource is not None and not self.resource.is_dated:
            raise ValueError(f"{self.resource} is a snapshot: leave the date out")
        if self.field is not None and self.fault is not Fault.EXTRA_FIELD:
            if self.resource is None:
                raise ValueError("a field belongs to a resource: give the resource")
            if self.field not in self.resource.field_names:
                raise ValueError(
                    f"fields of {self.resource} are: {', '.join(self.resource.field_names)}"
                )
        return self

    def strikes(self, resource: Resource, date: dt.date | None) -> bool:
        """Tell whether the rule concerns this content, on whatever page."""
        return self.resource in (None, resource) and self.date in (None, date)


class ActiveFault(BaseModel):
    """A rule in force: its id and how many times are left (null: until removed)."""

    model_config = ConfigDict(extra="forbid")

    id: int
    rule: FaultRule
    times_left: int | None


class FaultBoard:
    """The faults in force, oldest first. Safe to use from several threads."""

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._lock = Lock()
        self._active: dict[int, ActiveFault] = {}
        self._last_id = 0
        self._on_change = on_change

    def add(self, rule: FaultRule) -> ActiveFault:
        """Put a rule into force."""
        with self._lock:
            self._last_id += 1
            active = ActiveFault(id=self._last_id, rule=rule, times_left=rule.times)
            self._active[active.id] = active
        self._on_change()
        return active

    def restore(self, faults: list[ActiveFault]) -> None:
        """Take over faults that an earlier process left in force."""
        with self._lock:
            self._active = {active.id: active for active in faults}
            self._last_id = max(self._active, default=0)

    def matching(
        self, resource: Resource, date: dt.date | None, page: int | None = None
    ) -> list[ActiveFault]:
        """Return the faults a request meets, oldest first; page None: on whatever page."""
        with self._lock:
            return [
                active
                for active in self._active.values()
                if active.rule.strikes(resource, date) and _on_page(active.rule, page)
            ]

    def strike(self, fault_id: int) -> bool:
        """Use up one of a fault's times; false when none is left, so that it must not strike."""
        with self._lock:
            active = self._active.get(fault_id)
            if active is None or active.times_left is None:
                return active is not None
            left = active.times_left - 1
            if left == 0:
                del self._active[fault_id]
            else:
                self._active[fault_id] = active.model_copy(update={"times_left": left})
        self._on_change()
        return True

    def in_force(self) -> list[ActiveFault]:
        """Return every fault in force, oldest first."""
        with self._lock:
            return list(self._active.values())

    def remove(self, fault_id: int) -> bool:
        """Remove one fault; false when there is none with this id."""
        with self._lock:
            found = self._active.pop(fault_id, None) is not None
        self._on_change()
        return found

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._active.clear()
        self._on_change()


def _on_page(rule: FaultRule, page: int | None) -> bool:
    return page is None or rule.page in (None, page)

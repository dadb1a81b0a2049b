"""Builds the pages of an answer: which records, how many in all, and the link to the next.

Pages are 500 records in the service's order; a page after the last is empty. Untouched pages are
encoded once and kept.
"""

import datetime as dt
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ingestion.demo_api.data import read_records
from ingestion.demo_api.faults import ActiveFault, Fault
from ingestion.demo_api.resources import Record, Resource
from ingestion.demo_api.spoiling import RECORD_FAULTS, spoil_records
from ingestion.demo_api.state import ServiceState

PAGE_SIZE = 500
SCHEMA_VERSION = "1"
UNSUPPORTED_SCHEMA_VERSION = "99"


@dataclass(frozen=True, slots=True)
class Address:
    """Which page of which content: date None for a snapshot, pages from 1."""

    resource: Resource
    date: dt.date | None
    page: int

    def link(self, page: int) -> str:
        """Return the address of another page of the same content, relative to the service."""
        day = f"date={self.date.isoformat()}&" if self.date else ""
        return f"/v1/{self.resource}?{day}page={page}"


def build_body(state: ServiceState, address: Address, met: list[ActiveFault]) -> bytes:
    """Return the encoded page with the content faults among `met` in it; each uses up a time."""
    repeats = [
        active
        for active in state.faults.matching(address.resource, address.date)
        if active.rule.fault is Fault.DUPLICATED_PAGE
    ]
    content_faults = [
        active
        for active in met
        if active.rule.fault in RECORD_FAULTS
        or active.rule.fault is Fault.UNSUPPORTED_SCHEMA_VERSION
    ]
    corrected = state.corrections.is_corrected(address.resource, address.date)
    if not (repeats or content_faults or corrected):
        return _encode_untouched(address)
    pages = _cut(state.corrections.records(address.resource, address.date))
    for repeat in repeats:
        _repeat_page(pages, repeat)
    answer = _answer(address, pages)
    for active in content_faults:
        _spoil_answer(state, address, answer, active)
    if answer["next"] is None:
        # One read is over with its last page: until then every page must tell the same total.
        for repeat in repeats:
            state.faults.strike(repeat.id)
    return _encode(answer)


def _repeat_page(pages: list[tuple[Record, ...]], repeat: ActiveFault) -> None:
    number = repeat.rule.page or 1
    pages[number:number] = pages[number - 1 : number]


def _spoil_answer(
    state: ServiceState, address: Address, answer: dict[str, Any], active: ActiveFault
) -> None:
    if active.rule.fault is Fault.UNSUPPORTED_SCHEMA_VERSION:
        if state.faults.strike(active.id):
            answer["schema_version"] = UNSUPPORTED_SCHEMA_VERSION
        return
    spoiled = spoil_records(address.resource, answer["records"], active.rule)
    if spoiled is not None and state.faults.strike(active.id):
        answer["records"] = spoiled


@lru_cache(maxsize=128)
def _encode_untouched(address: Address) -> bytes:
    return _encode(_answer(address, _cut(read_records(address.resource, address.date))))


def _cut(records: tuple[Record, ...]) -> list[tuple[Record, ...]]:
    return [records[at : at + PAGE_SIZE] for at in range(0, len(records), PAGE_SIZE)]


def _answer(address: Address, pages: list[tuple[Record, ...]]) -> dict[str, Any]:
    page = address.page
    return {
        "schema_version": SCHEMA_VERSION,
        "resource": address.resource,
        "date": address.date.isoformat() if address.date else None,
        "page": page,
        "records": pages[page - 1] if page <= len(pages) else (),
        "next": address.link(page + 1) if page < len(pages) else None,
        "total_records": sum(len(records) for records in pages),
    }


def _encode(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()

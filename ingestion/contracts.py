"""The contract of a resource: the record it promises, and everything that follows from that
promise.

A contract judges records and never changes a value; what is stored is what the source sent, less
what is sensitive. A contract that cannot be kept (a key that is not a column, a redaction onto an
existing column) is refused when it is declared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_type_hints

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

from ingestion.fields import KINDS, Field, Pseudonym, read_field

BOOKKEEPING = ("_artifact_id", "_partition", "_run_id", "_source_ref")

WindowKind = Literal["day", "snapshot"]


@dataclass(frozen=True, slots=True)
class Day:
    """A partition is one local day, told by one date column or by three integer columns."""

    columns: tuple[str] | tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done to each record before it is checked and stored."""

    action: Literal["drop", "pseudonym", "rename"]
    field: str
    into: str | None = None

    def __str__(self) -> str:
        return f"{self.action} {self.field}" + (f" into {self.into}" if self.into else "")


@dataclass(frozen=True, kw_only=True)
class Contract:
    """What records of one resource are.

    `record` is a TypedDict of the record as the source sends it, each field declared as
    `Annotated[type, About(...)]`; `key` names the stored columns that identify a record; `day` says
    how to tell a record's day (None: a snapshot); `renames` are {source's name: stored name};
    `supported_versions` are the schema versions of the source that mean this record.
    """

    name: str
    version: str
    supported_versions: tuple[str, ...]
    record: type
    key: tuple[str, ...]
    day: Day | None = None
    renames: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = self.columns
        if len(set(columns)) != len(columns):
            raise TypeError(f"{self.name}: two fields would be stored under one name")
        if reserved := [name for name in columns if name.startswith("_")]:
            raise TypeError(f"{self.name}: names with a leading underscore are taken: {reserved}")
        if unknown := set(self.renames) - {entry.name for entry in self.fields}:
            raise TypeError(f"{self.name}: renames name no field: {sorted(unknown)}")
        day_columns = self.day.columns if self.day else ()
        if missing := {*self.key, *day_columns} - set(columns):
            raise TypeError(f"{self.name}: key and day name no column: {sorted(missing)}")
        if not self.key or not self.supported_versions:
            raise TypeError(f"{self.name}: give a key and at least one supported version")

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields as the source sends them, in order."""
        hints = get_type_hints(self.record, include_extras=True)
        return tuple(read_field(name, annotation) for name, annotation in hints.items())

    @cached_property
    def sensitive_fields(self) -> tuple[Field, ...]:
        return tuple(entry for entry in self.fields if entry.is_sensitive)

    @cached_property
    def redacted_fields(self) -> dict[str, Field]:
        """Field by the name it has once redacted, in order: what is judged, and stored after
        renaming.
        """
        redacted = {}
        for entry in self.fields:
            match entry.about.sensitive:
                case None:
                    redacted[entry.name] = entry
                case Pseudonym(into):
                    redacted[into] = entry
        return redacted

    @cached_property
    def stored_names(self) -> dict[str, str]:
        """{name once redacted: column}, in column order."""
        return {name: self.renames.get(name, name) for name in self.redacted_fields}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The stored columns, in order, without the bookkeeping ones."""
        return tuple(self.stored_names.values())

    @property
    def window_kind(self) -> WindowKind:
        return "day" if self.day else "snapshot"

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is done to each record before it is stored, in order."""
        redactions = []
        for entry in self.sensitive_fields:
            if isinstance(entry.about.sensitive, Pseudonym):
                redactions.append(Step("pseudonym", entry.name, entry.about.sensitive.into))
            else:
                redactions.append(Step("drop", entry.name))
        renames = [Step("rename", name, into) for name, into in self.renames.items()]
        return (*redactions, *renames)

    @property
    def needs_pseudonym_key(self) -> bool:
        return any(isinstance(entry.about.sensitive, Pseudonym) for entry in self.fields)

    @cached_property
    def record_validator(self) -> TypeAdapter[Any]:
        """Judges one redacted record, as parsed."""
        rules = {
            name: entry.pseudonym_rules() if entry.is_sensitive else entry.rules()
            for name, entry in self.redacted_fields.items()
        }
        # Type checkers know only the literal form of a TypedDict; these fields are found at run time.
        make_typed_dict: Any = TypedDict
        record = make_typed_dict("RedactedRecord", rules)
        record.__pydantic_config__ = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore")
        return TypeAdapter(record)

    def sql_types(self) -> dict[str, str]:
        """{column: Postgres type} of the staging table, bookkeeping columns last."""
        types = {
            column: self.redacted_fields[name].kind.sql
            for name, column in self.stored_names.items()
        }
        return types | dict.fromkeys(BOOKKEEPING, KINDS[str].sql)

    def describe(self) -> dict[str, Any]:
        """JSON-able description for documentation and `sluice sources list`."""
        return {
            "name": self.name,
            "version": self.version,
            "supported_versions": list(self.supported_versions),
            "key": list(self.key),
            "window": self.window_kind,
            "steps": [str(step) for step in self.steps],
            "sensitive": [entry.name for entry in self.sensitive_fields],
            "columns": self.sql_types(),
            "fields": [entry.describe() for entry in self.fields],
        }

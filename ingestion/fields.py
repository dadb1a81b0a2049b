"""What a contract says about one field: what it means, what it may hold, and whether it is
sensitive.

A field is declared as `Annotated[type, About(...)]`; everything else (validator, Arrow type, SQL
type, documentation) follows from that one line. A declaration that cannot be kept is refused at
import.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, GroupedMetadata, Le, MaxLen, MinLen
from pydantic import StringConstraints

_INT64 = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class Pseudonym:
    """The value is replaced, before anything is stored, by its keyed hash in the column `into`."""

    into: str


@dataclass(frozen=True, slots=True)
class Drop:
    """The value is removed before anything is stored."""


Redaction = Pseudonym | Drop


@dataclass(frozen=True, kw_only=True)
class About(GroupedMetadata):
    """Documentation and rules of a field.

    `at_least` and `at_most` bound a number, `length` is (shortest, longest) of a text, `unit` is
    for people, `sensitive` says what becomes of a value that must not be stored.
    """

    doc: str
    unit: str | None = None
    at_least: float | None = None
    at_most: float | None = None
    length: tuple[int, int] | None = None
    sensitive: Redaction | None = None

    def __iter__(self) -> Iterator[object]:
        if self.at_least is not None:
            yield Ge(self.at_least)
        if self.at_most is not None:
            yield Le(self.at_most)
        if self.length is not None:
            yield MinLen(self.length[0])
            yield MaxLen(self.length[1])


@dataclass(frozen=True, slots=True)
class Kind:
    """A type that records may hold, and the same type in SQL."""

    name: str
    python: type
    sql: str


KINDS = {
    int: Kind("integer", int, "bigint"),
    float: Kind("number", float, "double precision"),
    str: Kind("text", str, "character varying"),
    bool: Kind("boolean", bool, "boolean"),
    datetime: Kind("timestamp", datetime, "timestamp with time zone"),
    date: Kind("date", date, "date"),
}


# JSON carries moments and days as text, and as text they are checked and handed to Arrow, which also
# knows how many days a month has. Pydantic's own types would take bare numbers, for Unix time.
_DATE_PATTERN = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK_PATTERN = "([01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE_PATTERN = f"(Z|[+-]{_CLOCK_PATTERN})"
PATTERNS = {
    date: f"^{_DATE_PATTERN}$",
    datetime: rf"^{_DATE_PATTERN}[T ]{_CLOCK_PATTERN}:[0-5][0-9](\.[0-9]{{1,6}})?{_ZONE_PATTERN}$",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: `name` as the source sends it, the rest as declared."""

    name: str
    kind: Kind
    nullable: bool
    enumeration: tuple[str, ...]
    about: About

    @property
    def is_sensitive(self) -> bool:
        return self.about.sensitive is not None

    def rules(self) -> Any:
        """The annotation that pydantic judges the field by."""
        annotation: Any = self.kind.python
        if self.enumeration:
            annotation = Literal[self.enumeration]
        elif self.kind.python is int:
            low = _INT64[0] if self.about.at_least is None else self.about.at_least
            high = _INT64[1] if self.about.at_most is None else self.about.at_most
            annotation = Annotated[int, Ge(low), Le(high)]
        elif pattern := PATTERNS.get(self.kind.python):
            annotation = Annotated[str, StringConstraints(pattern=pattern)]
        else:
            annotation = Annotated[annotation, self.about]
        return annotation | None if self.nullable else annotation

    def pseudonym_rules(self) -> Any:
        """The annotation for the pseudonym of the field."""
        return str | None if self.nullable else str

    def describe(self) -> dict[str, Any]:
        """JSON-able, for people and documentation."""
        about = self.about
        described: dict[str, Any] = {
            "name": self.name,
            "type": self.kind.name,
            "nullable": self.nullable,
            "doc": about.doc,
        }
        optional = {
            "unit": about.unit,
            "at_least": about.at_least,
            "at_most": about.at_most,
            "length": list(about.length) if about.length else None,
            "enumeration": list(self.enumeration) or None,
        }
        described |= {name: value for name, value in optional.items() if value is not None}
        match about.sensitive:
            case Pseudonym(into):
                described |= {"sensitive": True, "stored": "pseudonym", "stored_as": into}
            case Drop():
                described |= {"sensitive": True, "stored": "never"}
            case None:
                described["sensitive"] = False
        return described


def read_field(name: str, annotation: Any) -> Field:
    """The field that `name: Annotated[type, About(...)]` declares. Raises `TypeError`."""
    abouts = [entry for entry in get_args(annotation)[1:] if isinstance(entry, About)]
    if get_origin(annotation) is not Annotated or len(abouts) != 1:
        raise TypeError(f"{name}: declare it as Annotated[type, About(doc=...)]")
    inner, nullable = _without_none(get_args(annotation)[0])
    enumeration: tuple[str, ...] = ()
    if get_origin(inner) is Literal:
        enumeration = get_args(inner)
        if not all(isinstance(value, str) for value in enumeration):
            raise TypeError(f"{name}: an enumeration holds texts only")
        inner = str
    if inner not in KINDS:
        known = ", ".join(kind.__name__ for kind in KINDS)
        raise TypeError(f"{name}: a field is one of {known}, or a Literal of texts, or that | None")
    field = Field(name, KINDS[inner], nullable, enumeration, abouts[0])
    _check_about(field)
    return field


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    members = [member for member in get_args(annotation) if member is not NoneType]
    if len(members) != 1:
        return annotation, False
    return members[0], True


def _check_about(field: Field) -> None:
    about, number = field.about, field.kind.python in (int, float)
    if not about.doc.strip():
        raise TypeError(f"{field.name}: say in doc what it means")
    if not number and (about.at_least, about.at_most) != (None, None):
        raise TypeError(f"{field.name}: only a number has at_least and at_most")
    if about.length and (field.kind.python is not str or field.enumeration):
        raise TypeError(f"{field.name}: only a free text has a length")
    if isinstance(about.sensitive, Pseudonym) and field.kind.python is not str:
        raise TypeError(f"{field.name}: only a text can become a pseudonym; drop it instead")

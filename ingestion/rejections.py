"""What is kept of a record that broke a rule, and the words that say which rule and why.

A sentence is built from the field's declaration and never quotes a text of the record: an observed
value appears only if it is a number, or has the form of a moment or of an enumeration's code.
"""

import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Self

from ingestion.fields import Field

_LONGEST_TEXT = 2_000
_MOMENT = re.compile(r"[0-9TZ:.+ -]{1,35}", re.ASCII)
_CODE = re.compile(r"[A-Z0-9]{1,4}", re.ASCII)
_WORDS = {
    "missing": "is missing",
    "int_type": "is not a whole number",
    "float_type": "is not a number",
    "bool_type": "is not true or false",
    "string_type": "is not a text",
    "string_unicode": "is not valid Unicode",
    "string_too_short": "is too short",
    "string_too_long": "is too long",
    "string_pattern_mismatch": "is not written as the contract asks",
    "literal_error": "is none of the allowed values",
    "timezone_aware": "has no time zone",
    "finite_number": "is not a finite number",
    "nul_character": "contains a NUL character, which Postgres cannot store",
    "unstorable": "cannot be stored in its column",
}
_SHOWN_TYPES = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A record that broke a rule: `rule` is stable, `error` is for people, `payload` is redacted.

    `source_ref` is the URL path, page and position it came from; `field` is None if the rule
    concerns the whole record; `altered` names what the payload holds in another form than it was
    sent in.
    """

    source_ref: str
    rule: str
    field: str | None
    error: str
    payload: Any
    altered: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"altered": list(self.altered)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        return cls(**values | {"altered": tuple(values.get("altered", ()))})


def explain(field: Field, rule: str, value: Any = None) -> str:
    """One sentence for a reviewer: the field, what is wrong, what was allowed."""
    about = field.about
    unit = f" {about.unit}" if about.unit else ""
    observed = _observed(field, value)
    if rule in ("less_than_equal", "greater_than_equal"):
        side, bound = (
            ("most", about.at_most) if rule == "less_than_equal" else ("least", about.at_least)
        )
        allowed = f"at {side} {_number(bound)}{unit}" if bound is not None else "64 bits"
        return f"{field.name} is {observed}{unit}; {allowed} is allowed"
    words = _WORDS.get(rule, f"breaks the rule {rule}")
    if rule == "missing":
        return f"{field.name} {words}"
    if field.enumeration:
        return f"{field.name} is {observed}; one of {', '.join(field.enumeration)} is allowed"
    if value is not None and not field.is_sensitive and rule != "nul_character":
        words += f" but {observed}" if words.startswith("is not") else f": {observed}"
    return f"{field.name} {words}; the contract asks for {_expected(field)}"


def redacted_payload(record: Any, fields: dict[str, Field]) -> Any:
    """What may be kept of a redacted record: its known fields, made storable as jsonb.

    Values of fields that the contract does not know are left out; nested values and over-long texts
    are replaced by what they are.
    """
    if not isinstance(record, dict):
        return {"_record": _describe(record)}
    return {name: _storable(record[name]) for name in fields if name in record}


def altered_fields(record: Any, fields: dict[str, Field]) -> tuple[str, ...]:
    """The names under which the payload of a redacted record does not hold what was sent."""
    if not isinstance(record, dict):
        return ("_record",)
    kept = {name: (record[name], _storable(record[name])) for name in fields if name in record}
    return tuple(
        name for name, (sent, held) in kept.items() if type(sent) is not type(held) or sent != held
    )


def _observed(field: Field, value: Any) -> str:
    if value is None:
        return "null"
    if not field.is_sensitive:
        if type(value) in (int, float):
            return _number(value)
        if isinstance(value, str):
            moment = field.kind.name in ("timestamp", "date") and _MOMENT.fullmatch(value)
            if moment or (field.enumeration and _CODE.fullmatch(value)):
                return value
    return _describe(value)


def _describe(value: Any) -> str:
    return _SHOWN_TYPES.get(type(value), "null" if value is None else "a number")


def _number(value: float) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _expected(field: Field) -> str:
    about = field.about
    expected = (
        f"a {field.kind.name}" if field.kind.name[0] not in "aeiou" else f"an {field.kind.name}"
    )
    if about.length:
        shortest, longest = about.length
        expected += f" of {shortest}" + (f" to {longest}" if longest > shortest else "")
        expected += " characters"
    if about.at_least is not None and about.at_most is not None:
        expected += f" from {_number(about.at_least)} to {_number(about.at_most)}"
    return expected + (" or null" if field.nullable else "")


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        text = value.replace("\0", "\\u0000").encode("utf-8", "backslashreplace").decode()
        if len(text) > _LONGEST_TEXT:
            return f"{text[:_LONGEST_TEXT]}… ({len(text)} characters)"
        return text
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return f"({_describe(value)})"

"""Takes sensitive values out of records, in memory, before anything else looks at them.

A pseudonym is a keyed HMAC-SHA256 of the value (32 hex digits): the same person has the same one,
and without the key nobody finds the person. After `redact` a record holds no sensitive value,
whatever else is wrong with it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from ingestion.contracts import Contract
from ingestion.errors import IngestionConfigurationError
from ingestion.fields import Field, Pseudonym

KEY_VARIABLE = "SLUICE_PSEUDONYM_KEY"
_PSEUDONYM_LENGTH = 32
_MISSING = object()
_BLOCK = 64
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))

Record = dict[str, Any]


def read_key(contract: Contract, environ: Mapping[str, str]) -> bytes:
    """The key of the contract's pseudonyms; empty if it has none.

    Raises `IngestionConfigurationError` when a needed key is not in the environment.
    """
    if not contract.needs_pseudonym_key:
        return b""
    key = environ.get(KEY_VARIABLE, "")
    if not key:
        raise IngestionConfigurationError(
            f"{contract.name} holds sensitive fields and {KEY_VARIABLE} is not set; "
            "set it to a long random secret and keep it",
            code="pseudonym_key_missing",
        )
    return key.encode()


class Redaction(Protocol):
    """What takes sensitive values out of records, in place; `Redactor.redact` says more."""

    def redact(self, records: Iterable[Any]) -> dict[int, tuple[Field, str]]: ...


class RedactedBefore:
    """For records that were redacted before they were kept."""

    def redact(self, records: Iterable[Any]) -> dict[int, tuple[Field, str]]:
        return {}


class Redactor:
    """Redacts the records of one contract."""

    def __init__(self, contract: Contract, key: bytes) -> None:
        self._sensitive = contract.sensitive_fields
        self._pseudonym = _pseudonymiser(key) if key else _refuse

    def redact(self, records: Iterable[Any]) -> dict[int, tuple[Field, str]]:
        """Redacts records in place; what is no dict is passed over.

        Returns {position: (field, rule)} for the records of which a field could not become a pseudonym,
        with the first such field. The rule is missing, string_type or nul_character. Such a record has
        no pseudonym either.
        """
        problems: dict[int, tuple[Field, str]] = {}
        for field in self._sensitive:
            self._redact_field(field, records, problems)
        return problems

    def redact_given(self, record: Record) -> tuple[Field, str] | None:
        """Redacts, in place, the sensitive fields that the record has; others it may lack.

        Returns the first field that could not become a pseudonym, and the rule.
        """
        problems: dict[int, tuple[Field, str]] = {}
        for field in self._sensitive:
            if field.name in record:
                self._redact_field(field, [record], problems)
        return problems.get(0)

    def _redact_field(
        self, field: Field, records: Iterable[Any], problems: dict[int, tuple[Field, str]]
    ) -> None:
        redaction = field.about.sensitive
        into = redaction.into if isinstance(redaction, Pseudonym) else None
        name, pseudonym = field.name, self._pseudonym
        for position, record in enumerate(records):
            if type(record) is not dict:
                continue
            value = record.pop(name, _MISSING)
            if into is None:
                continue
            # A field of the pseudonym's name is the source's own, not ours.
            record.pop(into, None)
            if type(value) is str and "\0" not in value:
                record[into] = pseudonym(value)
            elif value is None and field.nullable:
                record[into] = None
            else:
                problems.setdefault(position, (field, _wrong(value)))


def _wrong(value: Any) -> str:
    if value is _MISSING:
        return "missing"
    return "nul_character" if isinstance(value, str) else "string_type"


def _pseudonymiser(key: bytes) -> Callable[[str], str]:
    """HMAC-SHA256 with both halves of the key absorbed once: twice as fast for each value."""
    block = hashlib.sha256(key).digest() if len(key) > _BLOCK else key
    padded = block.ljust(_BLOCK, b"\0")
    inner_start = hashlib.sha256(padded.translate(_INNER))
    outer_start = hashlib.sha256(padded.translate(_OUTER))

    def pseudonym(value: str) -> str:
        inner, outer = inner_start.copy(), outer_start.copy()
        inner.update(value.encode("utf-8", "surrogatepass"))
        outer.update(inner.digest())
        return outer.hexdigest()[:_PSEUDONYM_LENGTH]

    return pseudonym


def _refuse(_: str) -> str:
    raise RuntimeError("a contract with pseudonyms needs a key; give one to the redactor")

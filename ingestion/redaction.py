"""Takes sensitive values out of records, in memory, before anything else looks at them.

A pseudonym is a keyed HMAC-SHA256 of the value (32 hex digits): the same person has the same one,
and without the key nobody finds the person. After `redact` a record holds no sensitive value,
whatever else is wrong with it.
"""

import hmac
from collections.abc import Mapping
from typing import Any

from ingestion.contracts import Contract
from ingestion.errors import IngestionConfigurationError
from ingestion.fields import Drop, Field, Pseudonym

KEY_VARIABLE = "SLUICE_PSEUDONYM_KEY"
_PSEUDONYM_LENGTH = 32
_MISSING = object()

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


class Redactor:
    """Redacts the records of one contract."""

    def __init__(self, contract: Contract, key: bytes) -> None:
        self._sensitive = contract.sensitive_fields
        self._keyed = hmac.new(key, digestmod="sha256") if key else None

    def redact(self, record: Record) -> tuple[Field, str] | None:
        """Redacts in place; returns the first field that could not become a pseudonym, and why.

        Why is a rule: missing, string_type or nul_character. Such a record has no pseudonym either.
        """
        problem: tuple[Field, str] | None = None
        for field in self._sensitive:
            value = record.pop(field.name, _MISSING)
            match field.about.sensitive:
                case Pseudonym(into):
                    # A field of the pseudonym's name is the source's own, not ours.
                    record.pop(into, None)
                    wrong = self._put(record, into, value, nullable=field.nullable)
                    if wrong and problem is None:
                        problem = (field, wrong)
                case Drop() | None:
                    continue
        return problem

    def _put(self, record: Record, into: str, value: Any, *, nullable: bool) -> str | None:
        if type(value) is str:
            if "\0" in value:
                return "nul_character"
            record[into] = self.pseudonym(value)
            return None
        if value is None and nullable:
            record[into] = None
            return None
        return "missing" if value is _MISSING else "string_type"

    def pseudonym(self, value: str) -> str:
        """32 hex digits that only the key's holder can make from the value."""
        if self._keyed is None:
            raise RuntimeError("a contract with pseudonyms needs a key; give one to the redactor")
        keyed = self._keyed.copy()
        keyed.update(value.encode("utf-8", "surrogatepass"))
        return keyed.hexdigest()[:_PSEUDONYM_LENGTH]

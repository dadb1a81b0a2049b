"""The file with which a reviewer corrects records: strict JSON, read without telling any value."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from orchestration.errors import ConfigurationError

_LARGEST_BYTES = 2**20


def read_corrections(path: Path | None, record_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """record → the fields that the file gives for it; nothing without a file.

    For one record the file is an object of fields, for several an object of such objects by record
    (`{"record-1": {…}}`), which may be given for one too. Raises `ConfigurationError`.
    """
    if path is None:
        return {}
    values = _parse(path)
    names = {f"record-{number}": number for number in record_ids}
    if not set(values) <= set(names):
        if len(names) == 1 and not any(name.startswith("record-") for name in values):
            return {record_ids[0]: values}
        strange = next(iter(sorted(set(values) - set(names))))
        named = strange if strange.startswith("record-") and len(strange) < 30 else "something else"
        raise _refused(
            path, f"name each of {', '.join(names)} with its fields; the file names {named}"
        )
    if wrong := [name for name, fields in values.items() if not isinstance(fields, dict)]:
        raise _refused(path, f"the fields of {wrong[0]} are not a JSON object")
    return {names[name]: fields for name, fields in values.items()}


def _parse(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise _refused(path, "it is larger than 1 MiB")
        text = path.read_text("utf-8")
    except OSError as error:
        raise _refused(path, f"it cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise _refused(path, "it is not UTF-8") from None
    try:
        values = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _refused(
            path, f"it is not JSON (line {error.lineno}, column {error.colno})"
        ) from None
    except _NotStrictError as error:
        raise _refused(path, str(error)) from None
    if not isinstance(values, dict) or not values:
        raise _refused(path, "it is not a JSON object of fields")
    return values


class _NotStrictError(ValueError):
    """JSON that a source would not send."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise _NotStrictError("an object names a field twice")
    return values


def _no_constant(_: str) -> NoReturn:
    raise _NotStrictError("NaN and Infinity are not JSON")


def _refused(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path.name} is no correction: {why}. Start from: sluice quarantine show RECORD --json",
        code="payload_file",
    )

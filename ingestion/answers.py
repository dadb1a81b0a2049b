"""What the body of an answer means: a page of records, or an error and whether it may pass by
itself.

An answer that is not the page that was asked for is refused as a whole. No message quotes an
answer.
"""

import json
from dataclasses import dataclass
from typing import Any

import orjson

from ingestion.errors import ContractVersionError, SourceError
from ingestion.partitions import Partition
from ingestion.resources import Resource


@dataclass(frozen=True, slots=True)
class Page:
    """One page: its records as parsed, what it says of the whole, and where it came from.

    `source_ref` is path and query, never host or token.
    """

    records: list[Any]
    total_records: int
    schema_version: str
    next_link: str | None
    source_ref: str


def read_page(body: bytes, source_ref: str, resource: Resource, partition: Partition) -> Page:
    """The page that the body of an answer holds.

    Raises `ContractVersionError` for a schema version that the contract does not support and
    `SourceError` for anything that is no page of this partition.
    """
    answer = _parse(body)
    if not isinstance(answer, dict):
        raise _no_page(resource, "is not an object")
    version = answer.get("schema_version")
    if not isinstance(version, str):
        raise _no_page(resource, "has no schema_version")
    check_version(resource, version)
    records, total, link = answer.get("records"), answer.get("total_records"), answer.get("next")
    if not isinstance(records, list):
        raise _no_page(resource, "has no list of records")
    if type(total) is not int or total < 0:
        raise _no_page(resource, "has no total_records")
    if link is not None and not isinstance(link, str):
        raise _no_page(resource, "has a next that is no link")
    if answer.get("resource", resource.name) != resource.name:
        raise _no_page(resource, "is of another resource")
    if partition.day and answer.get("date", partition.window) != partition.window:
        raise _no_page(resource, "is of another day")
    return Page(
        records=records,
        total_records=total,
        schema_version=version,
        next_link=link,
        source_ref=source_ref,
    )


def check_version(resource: Resource, version: str) -> None:
    """Raises `ContractVersionError` unless the contract supports this schema version of the
    source.
    """
    supported = resource.contract.supported_versions
    if version not in supported:
        shown = version if version.isalnum() and len(version) <= 16 else "of another form"
        raise ContractVersionError(
            f"{resource.full_name} answers in schema version {shown}, and contract "
            f"{resource.contract.version} supports {', '.join(supported)}; "
            "read what changed and extend the contract"
        )


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:
        # One text with half a surrogate pair must not cost the whole page: json keeps it.
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise SourceError(
            "the source answered with invalid JSON; if it goes on, tell its owner",
            code="source_invalid_json",
            transient=True,
        ) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_page(resource: Resource, what: str) -> SourceError:
    return SourceError(
        f"an answer of {resource.full_name} {what}; tell the source's owner",
        code="source_invalid_answer",
    )

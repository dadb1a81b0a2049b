"""What reviewers decide about the quarantine and held versions: through functions of the database
alone, as their role.

What a decision may change the database decides; one that is not possible comes back as a sentence that
says why. Every one is kept for ever, with the login role.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from ingestion.retries import Judged, KeptRecord
from orchestration.errors import ConfigurationError
from orchestration.sql.queries import query
from orchestration.warehouse.quarantine import kept_record, result_of

_REFUSED = "SL010"


@dataclass(frozen=True)
class EntryRecord:
    """A quarantined record with all that decides whether and how it can be retried."""

    record_id: int
    pipeline: str
    resource: str
    window_name: str
    partition: str
    decision: str
    kept: KeptRecord
    retried_as: str | None
    """The partition that has it, of a record that counts as retried."""
    later_fetched: str | None
    """The partition that was fetched since; then only a correction that is in force counts."""
    is_in_force: bool
    under_way: str | None
    """The partition of a retry that has not come to its end; `correction_under_way` is its own."""
    correction_under_way: dict[str, Any] | None


@dataclass(frozen=True)
class Retry:
    """A revision that a reviewer asked for, and the records that it is about."""

    retry_id: int
    pipeline: str
    partition: str
    status: str


def read_records(
    connection: psycopg.Connection, record_ids: Iterable[int]
) -> dict[int, EntryRecord]:
    """The records with these numbers; a role that may see payloads."""
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query("quarantine_records"), [list(record_ids)]).fetchall()
    return {row["record_id"]: _entry(row) for row in rows}


def _entry(row: dict[str, Any]) -> EntryRecord:
    kept = kept_record(row)
    names = (
        *(
            "record_id",
            "pipeline",
            "resource",
            "window_name",
            "partition",
            "decision",
            "retried_as",
        ),
        *("later_fetched", "under_way", "correction_under_way"),
    )
    return EntryRecord(
        **{name: row[name] for name in names},
        kept=kept,
        is_in_force=kept.correction is not None and row["superseded_by"] is None,
    )


def request_retry(
    connection: psycopg.Connection, kept: Sequence[KeptRecord], reason: str
) -> tuple[Retry, bool]:
    """Writes down that these records of one window are to be retried; whether that is new.

    One transaction; the reviewer's connection. The same request again is the same retry. Raises
    `ConfigurationError` when it is not possible.
    """
    items = [{"record_id": item.record_id, "correction": item.correction} for item in kept]
    with _refusals(), connection.transaction():
        row = connection.execute(
            "select retry_id, pipeline, partition, is_new from quarantine.request_retry(%s, %s)",
            [Jsonb(items), reason],
        ).fetchone()
    if row is None:
        raise AssertionError("the request was neither kept nor refused")
    return Retry(row[0], row[1], row[2], "open"), row[3]


def keep_held(
    connection: psycopg.Connection, judged: Sequence[Judged], contract_version: str, reason: str
) -> None:
    """A retry came to nothing: the records stay, with the reason as it is now. The reviewer's."""
    with _refusals(), connection.transaction():
        connection.execute(
            "select quarantine.keep_held(%s, %s)",
            [Jsonb([result_of(item, contract_version) for item in judged]), reason],
        )


def discard_records(
    connection: psycopg.Connection, record_ids: Sequence[int], reason: str
) -> dict[int, bool]:
    """Decides that held records are never loaded: all of them, or none. The reviewer's connection.

    Returns for each whether that is new. Raises `ConfigurationError` when it is not possible.
    """
    with _refusals(), connection.transaction():
        rows = connection.execute(
            "select record_id, is_new from quarantine.discard_records(%s, %s)",
            [list(record_ids), reason],
        ).fetchall()
    return dict(rows)


def release_partition(connection: psycopg.Connection, artifact_id: str, reason: str) -> bool:
    """Accepts a rejected partition as it is; false when it is accepted already. The reviewer's.

    Raises `ConfigurationError` when it is not possible.
    """
    with _refusals(), connection.transaction():
        row = connection.execute(
            "select quarantine.release_partition(%s, %s)", [artifact_id, reason]
        ).fetchone()
    return bool(row and row[0])


def approve_version(connection: psycopg.Connection, version_id: str, reason: str) -> bool:
    """Waives what stands in the way of a held version; false when that was done before.

    The reviewer's connection. Raises `ConfigurationError` when it is not possible.
    """
    with _refusals(), connection.transaction():
        row = connection.execute(
            "select ops.approve_version(%s, %s)", [version_id, reason]
        ).fetchone()
    return bool(row and row[0])


def reject_version(
    connection: psycopg.Connection, version_id: str, reason: str
) -> list[str] | None:
    """Gives a held version up; returns the partitions set aside, None when that was done before.

    The reviewer's connection. Raises `ConfigurationError` when it is not possible.
    """
    with _refusals(), connection.transaction():
        row = connection.execute(
            "select ops.reject_version(%s, %s)", [version_id, reason]
        ).fetchone()
    return row[0] if row else None


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate == _REFUSED:
            raise ConfigurationError(
                error.diag.message_primary or "refused", code="decision_refused"
            ) from None
        raise

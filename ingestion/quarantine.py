"""Writes rejected records to the quarantine: each once, however often it is tried.

Payloads were redacted before they got here.
"""

from collections.abc import Sequence

import psycopg
from psycopg.types.json import Jsonb

from ingestion.partitions import Partition
from ingestion.rejections import RejectedRecord

_INSERT = """
insert into quarantine.records
    (pipeline, resource, partition, artifact_id, run_id, source_ref, rule, field, error, payload,
     contract_version, altered)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (artifact_id, source_ref) do nothing
"""


def insert_rejected(
    connection: psycopg.Connection,
    rejected: Sequence[RejectedRecord],
    *,
    pipeline: str,
    partition: Partition,
    artifact_id: str,
    run_id: str,
    contract_version: str,
) -> int:
    """Inserts in the caller's transaction; returns how many were new. The artifact row must exist.

    Raises psycopg's errors.
    """
    if not rejected:
        return 0
    about = (pipeline, partition.resource, str(partition), artifact_id, run_id)
    with connection.cursor() as cursor:
        cursor.executemany(
            _INSERT,
            [
                (
                    *about,
                    record.source_ref,
                    record.rule,
                    record.field,
                    record.error,
                    Jsonb(record.payload),
                    contract_version,
                    list(record.altered),
                )
                for record in rejected
            ],
        )
        return cursor.rowcount

"""Small transactions that never wait long, and what it means when one of them is refused."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg

_LOCK_TIMEOUT = "100ms"
_BATCH = 100
_WEIGHT = 20_000
_Item = TypeVar("_Item")

IN_USE = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.DependentObjectsStillExist,
    psycopg.errors.ForeignKeyViolation,
    psycopg.errors.ObjectInUse,
)
"""Refusals that concern one thing only: it stays, and the next prune looks again."""


@contextmanager
def brief_transaction(connection: psycopg.Connection) -> Iterator[None]:
    """Gives up a lock after 100 ms: readers that queue behind us are let go at once."""
    with connection.transaction():
        connection.execute("select set_config('lock_timeout', %s, true)", [_LOCK_TIMEOUT])
        yield


def why_in_use(error: psycopg.Error) -> str:
    """The refusal in words; names of objects, never values of rows."""
    match error:
        case psycopg.errors.ObjectInUse():
            return str(error.diag.message_primary)
        case psycopg.errors.ForeignKeyViolation():
            return f"{error.diag.schema_name}.{error.diag.table_name} refers to it"
        case psycopg.errors.DependentObjectsStillExist():
            return "something that is not Sluice's stands on it"
        case _:
            return "another session uses it"


def batches(
    items: Iterable[_Item], weigh: Callable[[_Item], int] = lambda _: 0
) -> Iterator[list[_Item]]:
    """At most a hundred items at a time, and fewer heavy ones."""
    batch: list[_Item] = []
    weight = 0
    for item in items:
        if batch and (len(batch) >= _BATCH or weight + weigh(item) > _WEIGHT):
            yield batch
            batch, weight = [], 0
        batch.append(item)
        weight += weigh(item)
    if batch:
        yield batch

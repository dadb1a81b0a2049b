"""The inbox: a message is a row, once, before anybody acts on it.

The only thing that the web service's role may do is to call the function that keeps one.
"""

from enum import StrEnum
from typing import Any

import psycopg
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from orchestration.triggers.events import Event
from orchestration.warehouse.connections import Role, Warehouse

Pool = AsyncConnectionPool[psycopg.AsyncConnection[Any]]

_CONNECTIONS = 8
# A sender waits for its answer and tries again; better an early 503 than a late one.
_CONNECT_S = 3
_WAIT_S = 4.0
_STATEMENT = "4s"


class Received(StrEnum):
    NEW = "new"
    REPEATED = "repeated"
    DIFFERENT = "different"
    """The id stands for another message already."""


def make_pool(warehouse: Warehouse) -> Pool:
    """Connections as the webhook's role; closed until opened, and patient with an absent server."""
    return AsyncConnectionPool(
        warehouse.url(Role.WEBHOOK, statement_timeout=_STATEMENT),
        kwargs={
            "autocommit": True,
            "connect_timeout": _CONNECT_S,
            "application_name": "sluice-webhook",
        },
        min_size=1,
        max_size=_CONNECTIONS,
        timeout=_WAIT_S,
        reconnect_timeout=1.0,
        open=False,
    )


async def receive(pool: Pool, source: str, message_id: str, event: Event) -> Received:
    """Keeps the message. Raises `psycopg.Error` when nobody knows whether it is kept; then the sender
    repeats it.

    A connection that the server closed while nobody looked is tried once more with another one: the
    message's id makes that harmless.
    """
    values = [
        source,
        message_id,
        event.content_digest,
        Jsonb(event.as_json()),
        list(event.pipelines),
    ]
    try:
        return await _receive(pool, values)
    except PoolTimeout:
        raise
    except psycopg.OperationalError:
        await pool.check()
        return await _receive(pool, values)


async def _receive(pool: Pool, values: list[Any]) -> Received:
    async with pool.connection() as connection:
        cursor = await connection.execute(
            "select ops.receive_event(%s, %s, %s, %s, %s)", values, prepare=True
        )
        [word] = await cursor.fetchone() or [Received.NEW]
    return Received(word)

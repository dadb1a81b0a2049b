"""A thread that looks into the warehouse again and again, over a connection of its own."""

import threading
from collections.abc import Callable
from typing import Self

import psycopg

from orchestration.warehouse.connections import Role, Warehouse


class Poll:
    """Calls `look` with the runner's connection every `interval_s` seconds while the context lasts.

    The first time after one interval; only then it connects. While the server is away it waits for
    the next time: whatever is looked at says by itself whether that took too long.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        name: str,
        interval_s: float,
        look: Callable[[psycopg.Connection], None],
    ) -> None:
        self._warehouse = warehouse
        self._interval_s = interval_s
        self._look = look
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5)

    def _go_on(self) -> None:
        connection: psycopg.Connection | None = None
        while not self._stop.wait(self._interval_s):
            try:
                if connection is None or connection.closed:
                    connection = self._warehouse.connect(Role.RUNNER, autocommit=True)
                self._look(connection)
            except psycopg.Error:
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

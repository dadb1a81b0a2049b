"""A run's lease in the hands of a process that has others do the work.

They take the lease from it by its name, one after the other. Whenever nobody else has it, this
process has, so that the run never looks abandoned while somebody sees to it.
"""

import threading
from contextlib import suppress
from typing import Self

import psycopg

from orchestration.runs.leases import TTL, extend, holder_name, release, try_acquire
from orchestration.runs.polling import Poll
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease

_LOOKS_PER_TTL = 3


class Standby:
    """Keeps `lease` while the context lasts, and takes it up again after each worker."""

    def __init__(self, warehouse: Warehouse, lease: Lease) -> None:
        self._warehouse = warehouse
        self._name = lease.name
        self._lease: Lease | None = lease
        self._guard = threading.Lock()
        interval_s = TTL.total_seconds() / _LOOKS_PER_TTL
        self._poll = Poll(warehouse, "standby", interval_s, self._keep)

    @property
    def giver(self) -> str:
        """The name under which workers take the lease from here."""
        return holder_name()

    def __enter__(self) -> Self:
        self._poll.__enter__()
        return self

    def __exit__(self, *unused: object) -> None:
        self._poll.__exit__(*unused)
        if self._lease is not None:
            # While the warehouse is away, the lease runs out by itself.
            with (
                suppress(psycopg.Error),
                self._warehouse.connect(Role.RUNNER, autocommit=True) as connection,
            ):
                release(connection, self._lease)

    def take_up(self) -> None:
        """At once, because a worker has just gone; of no effect while another process has it."""
        with self._warehouse.connect(Role.RUNNER, autocommit=True) as connection:
            self._keep(connection)

    def _keep(self, connection: psycopg.Connection) -> None:
        with self._guard:
            if self._lease is None or not extend(connection, self._lease):
                self._lease = try_acquire(connection, self._name)

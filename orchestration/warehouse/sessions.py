"""The connections that a process keeps while it works: one for each role, opened when first needed.

A session that was cut is found out before it is handed out again, and replaced.
"""

import psycopg

from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role, Warehouse


class Sessions:
    """Connections in autocommit, for one thread; whoever uses one leaves no transaction open."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._open: dict[Role, psycopg.Connection] = {}

    def get(self, role: Role) -> psycopg.Connection:
        """Raises `psycopg.OperationalError` when the server is away or refuses the login."""
        connection = self._open.get(role)
        if connection is None or not _is_usable(connection):
            if connection is not None:
                connection.close()
            connection = self._open[role] = self._warehouse.connect(role, autocommit=True)
        return connection

    def close(self) -> None:
        """Closes all of them; they open again when asked for."""
        while self._open:
            self._open.popitem()[1].close()


def stop_statements(warehouse: Warehouse, role: Role) -> None:
    """Stops what the worker's sessions of this role are executing, from any process or thread.

    The sessions stay, and get SQLSTATE 57014. Every role may do so to itself.
    """
    with warehouse.connect(role, autocommit=True) as connection:
        connection.execute(query("sessions_stop_statements"))


def _is_usable(connection: psycopg.Connection) -> bool:
    """Costs no round trip: a server that has gone has closed its end of the socket."""
    if connection.closed:
        return False
    try:
        # The first read may only bring the server's farewell, the second meets the end.
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
    except psycopg.OperationalError:
        return False
    return connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE

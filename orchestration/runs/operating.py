"""The build lease of a pipeline in the hands of an operator, so that no run builds or publishes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from orchestration.runs.leases import Heartbeat, acquire, release
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.fence import Lease, build_lease

_WAIT_S = 60.0


@contextmanager
def hold_build_lease(
    warehouse: Warehouse, pipeline: str, *, on_wait: Callable[[str], None]
) -> Iterator[Lease]:
    """The lease, kept alive until the context ends; raises `Busy` after a minute of waiting."""
    with warehouse.connect(Role.RUNNER, autocommit=True) as connection:
        lease = acquire(connection, build_lease(pipeline), wait_s=_WAIT_S, on_wait=on_wait)
        try:
            with Heartbeat(warehouse) as heartbeat, heartbeat.keep(lease):
                yield lease
        finally:
            release(connection, lease)

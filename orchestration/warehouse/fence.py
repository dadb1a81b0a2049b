"""The check that every write of a worker carries: its lease must still be alive under its fence."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from orchestration.errors import LeaseLost

STALE_FENCE = "SL001"


@dataclass(frozen=True)
class Lease:
    """The right to work on the thing `name`; `fence` grows with every acquisition of it."""

    name: str
    fence: int


def run_lease(run_id: str) -> str:
    return f"run/{run_id}"


def partition_lease(pipeline: str, resource: str, window: str) -> str:
    return f"partition/{pipeline}/{resource}/{window}"


def build_lease(pipeline: str) -> str:
    """One run at a time validates, builds and publishes for a pipeline."""
    return f"build/{pipeline}"


def outbox_lease(pipeline: str) -> str:
    """One process at a time tells what waits in the pipeline's outbox."""
    return f"outbox/{pipeline}"


def assert_fence(connection: psycopg.Connection, lease: Lease) -> None:
    """Keeps the lease from changing hands until the caller's transaction ends.

    Call it inside the transaction whose writes it guards. Raises `LeaseLost`.
    """
    with fenced(lease):
        connection.execute("select ops.assert_fence(%s, %s)", [lease.name, lease.fence])


@contextmanager
def fenced(lease: Lease) -> Iterator[None]:
    """Turns the refusal of a function that checks the fence itself into `LeaseLost`."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate == STALE_FENCE:
            raise LeaseLost(lease.name) from None
        raise

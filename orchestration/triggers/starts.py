"""Handing accepted runs to whoever executes them: each once, later if that is not possible now.

The platform may be down, refuse for a while, or take a run and lose its answer. A claim runs out
after two minutes, and the run's id is the idempotency key of its start, so that asking again starts
nothing twice.
"""

import random
from dataclasses import dataclass
from typing import Protocol

import psycopg

from orchestration.failures.backoff import base_seconds
from orchestration.faultpoints import FaultPoint, reach
from orchestration.identity import RunId
from orchestration.sql.queries import query

_LONGEST_WAIT_S = 900.0
_FIRST_WAIT_S = 15.0


class NotStarted(Exception):
    """The platform took nothing; the text says why and holds nothing secret."""


class Starter(Protocol):
    """Takes a run and returns its own name for what it started. Raises `NotStarted`."""

    def start_run(self, run_id: RunId) -> str: ...

    async def start_dispatch(self) -> None: ...


@dataclass(frozen=True)
class Started:
    run_id: RunId
    reference: str


@dataclass(frozen=True)
class Waiting:
    """A run that was not taken; it is tried again later."""

    run_id: RunId
    attempts: int
    error: str


def start_waiting(connection: psycopg.Connection, starter: Starter) -> list[Started | Waiting]:
    """Hands over every run whose turn it is; the runner's connection in autocommit."""
    done: list[Started | Waiting] = []
    while (claimed := _claim(connection)) is not None:
        run_id, attempts = claimed
        reach(FaultPoint.DISPATCH_AFTER_CLAIM)
        try:
            reference = starter.start_run(run_id)
        except NotStarted as error:
            _postpone(connection, run_id, attempts, str(error))
            done.append(Waiting(run_id, attempts, str(error)))
            # It would not take another one now either.
            break
        reach(FaultPoint.DISPATCH_AFTER_START)
        connection.execute(
            "update ops.run_starts set started_at = clock_timestamp(), reference = %s, error = null "
            "where run_id = %s and started_at is null",
            [reference, run_id],
        )
        done.append(Started(run_id, reference))
    return done


def count_waiting(connection: psycopg.Connection) -> int:
    """Accepted runs that nobody has taken yet."""
    row = connection.execute(
        "select count(*) from ops.run_starts s join ops.runs r using (run_id) "
        "where s.started_at is null and r.status = 'accepted'"
    ).fetchone()
    return int(row[0]) if row else 0


def _claim(connection: psycopg.Connection) -> tuple[RunId, int] | None:
    row = connection.execute(query("starts_claim")).fetchone()
    return (RunId(row[0]), int(row[1])) if row else None


def _postpone(connection: psycopg.Connection, run_id: RunId, attempts: int, error: str) -> None:
    ceiling = min(_LONGEST_WAIT_S, base_seconds() * _FIRST_WAIT_S * 2.0 ** min(attempts - 1, 10))
    # Jitter spreads what was refused together; it guards nothing secret.
    wait = random.uniform(ceiling / 2, ceiling)  # noqa: S311
    connection.execute(
        "update ops.run_starts set error = %s, next_at = clock_timestamp() + make_interval(secs => %s) "
        "where run_id = %s and started_at is null",
        [error, wait, run_id],
    )

"""Processes that read pairs of views without pause, in all the ways in which people read."""

import itertools
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from typing import Any

import psycopg

from orchestration.warehouse.connections import Role, Warehouse

STOPPED = -1
Read = Callable[[psycopg.Connection, str, str, str], set[int]]
"""(connection, schema, one view, another) → the versions that were seen together."""


def pair(schema: str, one: str, other: str) -> str:
    return (
        f"select a.version, b.version from {schema}.{one} a join {schema}.{other} b using (id) "
        "where a.id between 5 and 50"
    )


def plain(connection: psycopg.Connection, schema: str, one: str, other: str) -> set[int]:
    return set(itertools.chain(*connection.execute(pair(schema, one, other)).fetchall()))


def generic_plan(connection: psycopg.Connection, schema: str, one: str, other: str) -> set[int]:
    connection.execute("set plan_cache_mode = force_generic_plan")
    text = pair(schema, one, other) + " and b.id > %s"
    return set(itertools.chain(*connection.execute(text, [1], prepare=True).fetchall()))


def repeatable_read(connection: psycopg.Connection, schema: str, one: str, other: str) -> set[int]:
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        seen = plain(connection, schema, one, one)
        return seen | plain(connection, schema, other, other)


def cursor(connection: psycopg.Connection, schema: str, one: str, other: str) -> set[int]:
    with connection.transaction(), connection.cursor(name="slowly") as opened:
        opened.execute(pair(schema, one, other))
        seen = set(itertools.chain(*opened.fetchmany(3)))
        time.sleep(0.002)
        return seen | set(itertools.chain(*opened.fetchall()))


def plpgsql(connection: psycopg.Connection, *_: str) -> set[int]:
    """A function of somebody's that reads two views in two statements, as of one moment."""
    row = connection.execute("select people.versions_of_two()").fetchone()
    return set(row[0]) if row else set()


def users_view(connection: psycopg.Connection, *_: str) -> set[int]:
    """A view of somebody's that joins two published ones."""
    rows = connection.execute("select * from people.joined where id between 5 and 50").fetchall()
    return {number for row in rows for number in row[:2]}


def old_snapshot(connection: psycopg.Connection, schema: str, one: str, other: str) -> set[int]:
    """Holds a snapshot, and no lock, over several publications before it reads."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select 1")
        time.sleep(random.uniform(0, 0.5))
        return plain(connection, schema, one, other)


KINDS: dict[str, Read] = {
    "plain": plain,
    "generic plan": generic_plan,
    "repeatable read": repeatable_read,
    "cursor": cursor,
    "PL/pgSQL": plpgsql,
    "user's view": users_view,
    "old snapshot": old_snapshot,
}


@dataclass
class Seen:
    """What one reader met in one phase; times in milliseconds."""

    times: list[float] = field(default_factory=list)
    mixed: int = 0
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Seen") -> None:
        self.times += other.times
        self.mixed += other.mixed
        self.errors += other.errors


class Readers:
    """Starts one process a kind, which read until they are stopped; `phase` says what they record.

    A phase is a number and the schema that is read in it.
    """

    def __init__(self, warehouse: Warehouse, kinds: Sequence[str], views: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._phase = context.Value("i", 0)
        self._schemas = context.Array("c", 64 * 16)
        self._pipes: list[Any] = []
        self._processes = []
        for kind in kinds:
            ours, theirs = context.Pipe()
            arguments = (warehouse, kind, list(views), self._phase, self._schemas, theirs)
            process = context.Process(target=_read, args=arguments, daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def enter(self, phase: int, schema: str = "analytics") -> None:
        self._schemas[phase * 64 : phase * 64 + len(schema)] = schema.encode()
        self._phase.value = phase

    def stop(self) -> dict[int, Seen]:
        """phase → what all readers met."""
        self._phase.value = STOPPED
        met: dict[int, Seen] = {}
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            for phase, seen in pipe.recv().items():
                met.setdefault(phase, Seen()).add(seen)
            process.join()
        return met


def _read(
    warehouse: Warehouse, kind: str, views: list[str], phase: Any, schemas: Any, pipe: Pipe
) -> None:
    met: dict[int, Seen] = {}
    with warehouse.connect(Role.ANALYST, autocommit=True) as connection:
        pipe.send("ready")
        while (now := phase.value) != STOPPED and _parent_lives():
            if now == 0:
                time.sleep(0.01)
                continue
            schema = bytes(schemas[now * 64 : now * 64 + 64]).rstrip(b"\0").decode()
            read = KINDS[kind] if schema == "analytics" else plain
            seen = met.setdefault(now, Seen())
            one, other = random.sample(views, 2)
            began = time.perf_counter()
            try:
                versions = read(connection, schema, one, other)
            except psycopg.Error as error:
                seen.errors[f"{error.sqlstate} {type(error).__name__} ({kind})"] += 1
                continue
            seen.times.append((time.perf_counter() - began) * 1000)
            seen.mixed += len(versions) != 1
    pipe.send(met)


def _parent_lives() -> bool:
    parent = multiprocessing.parent_process()
    return parent is not None and parent.is_alive()

"""Readers that never stop, while versions are published: no mix, no error."""

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from orchestration.publication.grace import Patience
from orchestration.warehouse.connections import Role, Warehouse

MODELS = [f"model_{number}" for number in range(4)]
Reader = Callable[[psycopg.Connection, str, str], set[int]]


def models(number: int) -> dict[str, str]:
    """Every model says which version it belongs to, in each of its rows."""
    return dict.fromkeys(
        MODELS, f"select {number} as version, i as id from generate_series(1, 200) i"
    )


def pair(one: str, other: str) -> str:
    return (
        f"select a.version, b.version from analytics.{one} a join analytics.{other} b using (id) "
        "where a.id between 5 and 50"
    )


def plain(connection: psycopg.Connection, one: str, other: str) -> set[int]:
    return set(itertools.chain(*connection.execute(pair(one, other)).fetchall()))


def generic_plan(connection: psycopg.Connection, one: str, other: str) -> set[int]:
    connection.execute("set plan_cache_mode = force_generic_plan")
    query = pair(one, other) + " and b.id > %s"
    return set(itertools.chain(*connection.execute(query, [1], prepare=True).fetchall()))


def repeatable_read(connection: psycopg.Connection, one: str, other: str) -> set[int]:
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        seen = plain(connection, one, one)
        time.sleep(random.uniform(0, 0.03))
        return seen | plain(connection, other, other)


def cursor(connection: psycopg.Connection, one: str, other: str) -> set[int]:
    with connection.transaction(), connection.cursor(name="slowly") as opened:
        opened.execute(pair(one, other))
        seen = set(itertools.chain(*opened.fetchmany(3)))
        time.sleep(random.uniform(0, 0.03))
        return seen | set(itertools.chain(*opened.fetchall()))


def old_snapshot(connection: psycopg.Connection, one: str, other: str) -> set[int]:
    """Holds a snapshot, and no lock, over several publications before it reads."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        connection.execute("select 1")
        time.sleep(random.uniform(0, 0.5))
        return plain(connection, one, other)


class Readers:
    """Threads that read pairs of views until they are told to stop."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.reads = 0
        self.mixed: list[set[int]] = []
        self.errors: list[psycopg.Error] = []
        self._over = threading.Event()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def reading(self, *kinds: Reader) -> Iterator[None]:
        threads = [threading.Thread(target=self._read, args=[kind]) for kind in kinds]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _read(self, kind: Reader) -> None:
        with self.warehouse.connect(Role.ANALYST, autocommit=True) as connection:
            while not self._over.is_set():
                one, other = random.sample(MODELS, 2)
                try:
                    seen = kind(connection, one, other)
                except psycopg.Error as error:
                    with self._lock:
                        self.errors.append(error)
                    continue
                with self._lock:
                    self.reads += 1
                    if len(seen) != 1:
                        self.mixed.append(seen)
                time.sleep(0.001)


def test_no_reader_sees_a_mix_or_an_error_while_versions_are_published(
    flights: Any, warehouse: Warehouse
) -> None:
    flights.publish(flights.build(models(0)))
    readers = Readers(warehouse)
    with readers.reading(plain, generic_plan, repeatable_read, cursor, old_snapshot):
        for number in range(1, 13):
            assert flights.publish(flights.build(models(number))).outcome == "published"
        flights.rollback()
        flights.rollback()
    assert (readers.mixed, readers.errors) == ([], [])
    assert readers.reads > 200
    assert flights.read("select distinct version from analytics.model_1") == [(10,)]


def test_without_the_grace_period_readers_get_a_clean_error_and_never_wrong_rows(
    flights: Any, warehouse: Warehouse
) -> None:
    hasty = Patience(honour_grace=False)
    flights.publish(flights.build(models(0)))
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select now()")
        assert reader.execute("select 1 from ops.publication_pointer").fetchone()
        for number in (1, 2):
            flights.publish(flights.build(models(number)), hasty)
        with pytest.raises(psycopg.errors.SerializationFailure) as caught:
            reader.execute(pair("model_1", "model_2"))
        assert "another version was published" in str(caught.value)
    readers = Readers(warehouse)
    with readers.reading(plain, generic_plan, cursor, old_snapshot, old_snapshot):
        for number in range(3, 13):
            flights.publish(flights.build(models(number)), hasty)
    assert readers.mixed == []
    assert {error.sqlstate for error in readers.errors} <= {"40001"}
    assert readers.reads > 50


def test_a_repeatable_read_transaction_sees_one_version_to_its_end(
    flights: Any, warehouse: Warehouse
) -> None:
    flights.publish(flights.build(models(0)))
    with warehouse.connect(Role.ANALYST) as reader:
        reader.execute("set transaction isolation level repeatable read")
        reader.execute("select 1 from ops.publication_pointer")
        flights.publish(flights.build(models(1)))
        assert plain(reader, "model_1", "model_2") == {0}
    assert flights.read("select distinct version from analytics.model_1") == [(1,)]

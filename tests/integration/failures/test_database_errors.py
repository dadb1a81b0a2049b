"""Errors of the warehouse, made to happen through psycopg, and what they are taken for."""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGTERM

import psycopg
import pytest
from failure_words import in_words
from psycopg import sql

from orchestration.failures import classify
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

SECRET = "eve@example.org"
Provoke = Callable[[Warehouse], object]


def execute(*statements: str, **settings: str) -> Provoke:
    """Runs the statements one by one, as the owner."""

    def provoke(warehouse: Warehouse) -> None:
        with warehouse.connect(autocommit=True, **settings) as connection:
            for statement in statements:
                connection.execute(statement)

    return provoke


def sleep(**settings: str) -> Provoke:
    return execute("select pg_sleep(5)", **settings)


def be_terminated(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection, warehouse.connect() as other:
        other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
        connection.execute("select 1")


def use_a_lost_connection(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection, warehouse.connect() as other:
        other.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
        for _ in range(2):
            try:
                connection.execute("select 1")
            except psycopg.errors.AdminShutdown:
                continue


def be_idle_in_a_transaction(warehouse: Warehouse) -> None:
    with warehouse.connect(idle_in_transaction_session_timeout="50ms") as connection:
        connection.execute("select 1")
        time.sleep(0.3)
        connection.execute("select 1")


def wait_for_a_lock(warehouse: Warehouse) -> None:
    with warehouse.connect() as holder, warehouse.connect(lock_timeout="50ms") as connection:
        holder.execute("create table if not exists public.locked ()")
        holder.commit()
        holder.execute("lock table public.locked")
        connection.execute("select * from public.locked")


def deadlock(warehouse: Warehouse) -> None:
    with warehouse.connect() as one, warehouse.connect() as other:
        one.execute("create table public.a ()")
        one.execute("create table public.b ()")
        one.commit()
        one.execute("lock table public.a")
        other.execute("lock table public.b")
        caught: list[BaseException] = []

        def cross(connection: psycopg.Connection, table: str) -> None:
            try:
                connection.execute(sql.SQL("lock table {}").format(sql.Identifier("public", table)))
                connection.rollback()
            except psycopg.Error as error:
                caught.append(error)
                connection.rollback()

        thread = threading.Thread(target=cross, args=(other, "a"))
        thread.start()
        cross(one, "b")
        thread.join()
    raise caught[0]


def lose_a_serialization_race(warehouse: Warehouse) -> None:
    with warehouse.connect() as one, warehouse.connect() as other:
        one.execute("create table public.counter as select 1 as n")
        one.commit()
        one.execute("set transaction isolation level repeatable read")
        one.execute("select * from public.counter")
        other.execute("update public.counter set n = 2")
        other.commit()
        one.execute("update public.counter set n = 3")


def lose_the_lease(warehouse: Warehouse) -> None:
    execute("select ops.assert_fence('build/flights', 7)")(warehouse)


def log_in_as(login: str) -> Provoke:
    return lambda warehouse: psycopg.connect(
        warehouse.owner_url.replace("sluice_owner", login), connect_timeout=5
    )


def log_in_at(place: str) -> Provoke:
    return lambda _: psycopg.connect(f"postgresql://x@{place}", connect_timeout=5)


def log_in_elsewhere(warehouse: Warehouse) -> None:
    psycopg.connect(warehouse.owner_url.replace("/test_", "/nowhere_"))


def log_in_when_too_many_have(warehouse: Warehouse) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("drop role if exists test_limited")
        owner.execute("create role test_limited login connection limit 1")
    url = warehouse.owner_url.replace("sluice_owner", "test_limited")
    with psycopg.connect(url):
        psycopg.connect(url)


def sort_too_much(warehouse: Warehouse) -> None:
    # Only a superuser may set the limit, and it binds him too.
    url = warehouse.owner_url.replace("sluice_owner", "postgres")
    with psycopg.connect(url, options="-c temp_file_limit=1kB -c work_mem=64kB") as connection:
        connection.execute(SORT)


def put_a_nul(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        connection.execute("select %s", [f"{SECRET}\0"])


def close_the_cursor(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        cursor = connection.cursor()
        cursor.close()
        cursor.execute("select 1")


TABLE = (
    "create table public.people (email text primary key, age int not null check (age > 0), "
    "boss text references public.people)"
)
PUT = f"insert into public.people values ('{SECRET}', 3, null)"
PUT_NULL = PUT.replace("3", "null")
PUT_LESS = PUT.replace("3", "-3")
PUT_UNDER = f"insert into public.people values ('x', 3, '{SECRET}')"
PERSON = "set role sluice_analyst"
DELETE = "delete from ops.runs"
READ_ONLY = {"default_transaction_read_only": "on"}
NO_NUMBER = f"select cast('{SECRET}' as int)"
QUOTES = f"""select cast('"a" {SECRET} "' as int)"""
NO_DATE = f"""select to_date('"a" {SECRET}', '"x"YYYY')"""
TOO_LARGE = "select cast('4111111111111111' as int)"
RAISE = f"do $$ begin raise exception 'no {SECRET}'; end $$"
SORT = (
    "select count(*) from (select g, repeat('x', 99) from generate_series(1, 99999) as g "
    "order by 2, 1) as s"
)

# what happened → kind, code, transient, exit code
CASES: list[tuple[str, Provoke, str]] = [
    ("terminated backend", be_terminated, "destination sqlstate_57p01 transient 13"),
    ("lost connection", use_a_lost_connection, "destination warehouse_unreachable transient 13"),
    ("statement timeout", sleep(statement_timeout="50ms"), "destination sqlstate_57014 transient 13"),
    ("transaction timeout", sleep(transaction_timeout="50ms"), "destination sqlstate_25p04 transient 13"),
    ("idle in transaction", be_idle_in_a_transaction, "destination sqlstate_25p03 transient 13"),
    ("lock timeout", wait_for_a_lock, "destination sqlstate_55p03 transient 13"),
    ("deadlock", deadlock, "destination sqlstate_40p01 transient 13"),
    ("serialization failure", lose_a_serialization_race, "destination sqlstate_40001 transient 13"),
    ("read-only", execute(TABLE, **READ_ONLY), "destination sqlstate_25006 transient 13"),
    ("temporary file limit", sort_too_much, "destination sqlstate_53400 permanent 13"),
    ("connection refused", log_in_at("127.0.0.1:9/x"), "destination warehouse_unreachable transient 13"),
    ("no socket", log_in_at("/x?host=/tmp/nowhere"), "destination warehouse_unreachable transient 13"),
    ("unknown setting", execute("select 1", foo="1"), "configuration sqlstate_42704 permanent 78"),
    ("no such host", log_in_at("x.invalid/x"), "destination warehouse_unreachable transient 13"),
    ("too many connections", log_in_when_too_many_have, "destination sqlstate_53300 transient 13"),
    ("wrong password", log_in_as("test_password:wr0ng"), "configuration sqlstate_28p01 permanent 78"),
    ("unknown role", log_in_as("nobody"), "configuration sqlstate_28000 permanent 78"),
    ("role without login", log_in_as("sluice_store"), "configuration sqlstate_28000 permanent 78"),
    ("unknown database", log_in_elsewhere, "configuration sqlstate_3d000 permanent 78"),
    ("lost lease", lose_the_lease, "internal lease_lost transient 75"),
    ("undefined table", execute("select * from ops.nothing"), "destination sqlstate_42p01 permanent 13"),
    ("undefined column", execute("select x from ops.runs"), "destination sqlstate_42703 permanent 13"),
    ("syntax error", execute("selekt 1"), "destination sqlstate_42601 permanent 13"),
    ("no privilege", execute(PERSON, DELETE), "destination sqlstate_42501 permanent 13"),
    ("unique violation", execute(TABLE, PUT, PUT), "destination sqlstate_23505 permanent 13"),
    ("not-null", execute(TABLE, PUT_NULL), "destination sqlstate_23502 permanent 13"),
    ("check violation", execute(TABLE, PUT_LESS), "destination sqlstate_23514 permanent 13"),
    ("foreign key violation", execute(TABLE, PUT_UNDER), "destination sqlstate_23503 permanent 13"),
    ("no number", execute(NO_NUMBER), "destination sqlstate_22p02 permanent 13"),
    ("no number, with quotes", execute(QUOTES), "destination sqlstate_22p02 permanent 13"),
    ("no date", execute(NO_DATE), "destination sqlstate_22007 permanent 13"),
    ("out of range", execute(TOO_LARGE), "destination sqlstate_22003 permanent 13"),
    ("raised by plpgsql", execute(RAISE), "destination sqlstate_p0001 permanent 13"),
    ("division by zero", execute("select 1/0"), "destination sqlstate_22012 permanent 13"),
    ("a NUL in a text", put_a_nul, "internal database_client permanent 70"),
    ("a closed cursor", close_the_cursor, "internal database_client permanent 70"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def a_role_with_a_password(server: EmbeddedServer) -> Iterator[None]:
    """The embedded server trusts its own machine; this role alone must say a password."""
    with psycopg.connect(server.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute("set client_min_messages = error")
        connection.execute("drop role if exists test_password, test_limited")
        connection.execute("create role test_password login password 'right'")
        row = connection.execute("show hba_file").fetchone()
        assert row is not None
        file = Path(row[0])
        before = file.read_text("utf-8")
        file.write_text("local all test_password scram-sha-256\n" + before, "utf-8")
        connection.execute("select pg_reload_conf()")
        time.sleep(0.1)
        yield
        file.write_text(before, "utf-8")
        connection.execute("select pg_reload_conf()")


@pytest.mark.parametrize(
    ("provoke", "expected"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_real_error_of_the_warehouse_is_classified_and_tells_no_value(
    warehouse: Warehouse, provoke: Provoke, expected: str
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        provoke(warehouse)
    failure = classify(caught.value)
    assert in_words(failure) == expected
    for value in (SECRET, "eve@", "4111", "wr0ng", "DETAIL", "LINE 1"):
        assert value not in failure.message


def test_a_server_that_stops_and_is_gone_is_transient_at_every_step() -> None:
    home = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    home.chmod(0o755)
    server = EmbeddedServer(home, durable=False)
    try:
        server.start()
        url = server.superuser_url("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute("select pg_read_file('postmaster.pid')").fetchone()
            assert row is not None
            pid = int(row[0].split()[0])
            # A smart shutdown: nobody new is let in, and we may stay.
            os.kill(pid, SIGTERM)
            time.sleep(0.2)
            with pytest.raises(psycopg.OperationalError) as refused:
                psycopg.connect(url)
            server.stop()
            with pytest.raises(psycopg.OperationalError) as ended:
                connection.execute("select 1")
        with pytest.raises(psycopg.OperationalError) as gone:
            psycopg.connect(url)
    finally:
        server.destroy()
        shutil.rmtree(home, ignore_errors=True)
    failures = [classify(caught.value) for caught in (refused, ended, gone)]
    assert [in_words(failure) for failure in failures] == [
        "destination sqlstate_57p03 transient 13",
        "destination sqlstate_57p01 transient 13",
        "destination warehouse_unreachable transient 13",
    ]

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
from psycopg import sql

from orchestration.errors import FailureKind
from orchestration.failures import classify
from orchestration.warehouse.connections import Warehouse
from orchestration.warehouse.embedded import EmbeddedServer

SECRET = "eve@example.org"
DESTINATION, CONFIGURATION, INTERNAL = (
    FailureKind.DESTINATION,
    FailureKind.CONFIGURATION,
    FailureKind.INTERNAL,
)
Provoke = Callable[[Warehouse], object]


def execute(*statements: str, **settings: str) -> Provoke:
    """Runs the statements one by one, as the owner."""

    def provoke(warehouse: Warehouse) -> None:
        with warehouse.connect(autocommit=True, **settings) as connection:
            for statement in statements:
                connection.execute(statement)

    return provoke


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


def log_in(change: Callable[[str], str]) -> Provoke:
    """Connects to the warehouse's own address, changed."""
    return lambda warehouse: psycopg.connect(change(warehouse.owner_url), connect_timeout=5)


def log_in_when_too_many_have(warehouse: Warehouse) -> None:
    with warehouse.connect(autocommit=True) as owner:
        owner.execute("drop role if exists test_limited")
        owner.execute("create role test_limited login connection limit 1")
    url = warehouse.owner_url.replace("sluice_owner", "test_limited")
    with psycopg.connect(url):
        psycopg.connect(url)


def log_in_with_a_wrong_password(warehouse: Warehouse) -> None:
    url = warehouse.owner_url.replace("sluice_owner", "test_password:wr0ng")
    psycopg.connect(url, connect_timeout=5)


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
PERSON = "set role sluice_analyst"

# what happened → kind, code, transient, exit code
CASES: list[tuple[str, Provoke, FailureKind, str, bool, int]] = [
    ("terminated backend", be_terminated, DESTINATION, "sqlstate_57p01", True, 13),
    ("lost connection", use_a_lost_connection, DESTINATION, "warehouse_unreachable", True, 13),
    ("statement timeout", execute("select pg_sleep(5)", statement_timeout="50ms"), DESTINATION, "sqlstate_57014", True, 13),
    ("transaction timeout", execute("select pg_sleep(5)", transaction_timeout="50ms"), DESTINATION, "sqlstate_25p04", True, 13),
    ("idle in transaction", be_idle_in_a_transaction, DESTINATION, "sqlstate_25p03", True, 13),
    ("lock timeout", wait_for_a_lock, DESTINATION, "sqlstate_55p03", True, 13),
    ("deadlock", deadlock, DESTINATION, "sqlstate_40p01", True, 13),
    ("serialization failure", lose_a_serialization_race, DESTINATION, "sqlstate_40001", True, 13),
    ("read-only", execute("create table public.x ()", default_transaction_read_only="on"), DESTINATION, "sqlstate_25006", True, 13),
    ("temporary file limit", execute("select count(*) from (select g, repeat('x', 99) from generate_series(1, 99999) g order by 2, 1) s", temp_file_limit="1kB", work_mem="64kB"), DESTINATION, "sqlstate_53400", False, 13),
    ("connection refused", log_in(lambda _: "postgresql://x@127.0.0.1:9/x"), DESTINATION, "warehouse_unreachable", True, 13),
    ("no socket", log_in(lambda _: "postgresql://x@/x?host=/tmp/no-such-folder"), DESTINATION, "warehouse_unreachable", True, 13),
    ("no such host", log_in(lambda _: "postgresql://x@no-such-host.invalid/x"), DESTINATION, "warehouse_unreachable", True, 13),
    ("too many connections", log_in_when_too_many_have, DESTINATION, "sqlstate_53300", True, 13),
    ("wrong password", log_in_with_a_wrong_password, CONFIGURATION, "sqlstate_28p01", False, 78),
    ("unknown role", log_in(lambda url: url.replace("sluice_owner", "nobody")), CONFIGURATION, "sqlstate_28000", False, 78),
    ("role without login", log_in(lambda url: url.replace("sluice_owner", "sluice_store")), CONFIGURATION, "sqlstate_28000", False, 78),
    ("unknown database", log_in(lambda url: url.replace("/test_", "/nowhere_")), CONFIGURATION, "sqlstate_3d000", False, 78),
    ("lost lease", lose_the_lease, INTERNAL, "lease_lost", True, 75),
    ("undefined table", execute("select * from ops.nothing"), DESTINATION, "sqlstate_42p01", False, 13),
    ("undefined column", execute("select nothing from ops.runs"), DESTINATION, "sqlstate_42703", False, 13),
    ("syntax error", execute("selekt 1"), DESTINATION, "sqlstate_42601", False, 13),
    ("insufficient privilege", execute(PERSON, "delete from ops.runs"), DESTINATION, "sqlstate_42501", False, 13),
    ("unique violation", execute(TABLE, PUT, PUT), DESTINATION, "sqlstate_23505", False, 13),
    ("not-null violation", execute(TABLE, PUT.replace("3", "null")), DESTINATION, "sqlstate_23502", False, 13),
    ("check violation", execute(TABLE, PUT.replace("3", "-3")), DESTINATION, "sqlstate_23514", False, 13),
    ("foreign key violation", execute(TABLE, f"insert into public.people values ('x', 3, '{SECRET}')"), DESTINATION, "sqlstate_23503", False, 13),
    ("no number", execute(f"select cast('{SECRET}' as int)"), DESTINATION, "sqlstate_22p02", False, 13),
    ("no number, with quotes", execute(f"""select cast('"a" {SECRET} "' as int)"""), DESTINATION, "sqlstate_22p02", False, 13),
    ("no date", execute(f"select to_date('\"a\" {SECRET}', '\"x\"YYYY')"), DESTINATION, "sqlstate_22007", False, 13),
    ("out of range", execute("select cast('4111111111111111' as int)"), DESTINATION, "sqlstate_22003", False, 13),
    ("raised by a function", execute(f"do $$ begin raise exception 'no {SECRET}'; end $$"), DESTINATION, "sqlstate_p0001", False, 13),
    ("division by zero", execute("select 1/0"), DESTINATION, "sqlstate_22012", False, 13),
    ("a NUL in a text", put_a_nul, INTERNAL, "database_client", False, 70),
    ("a closed cursor", close_the_cursor, INTERNAL, "database_client", False, 70),
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
    ("provoke", "kind", "code", "transient", "exit_code"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_a_real_error_of_the_warehouse_is_classified_and_tells_no_value(
    warehouse: Warehouse,
    provoke: Provoke,
    kind: FailureKind,
    code: str,
    transient: bool,
    exit_code: int,
) -> None:
    with pytest.raises(psycopg.Error) as caught:
        provoke(warehouse)
    failure = classify(caught.value)
    assert (failure.kind, failure.code, failure.transient, failure.exit_code) == (
        kind,
        code,
        transient,
        exit_code,
    )
    for value in (SECRET, "eve", "4111", "wr0ng", "DETAIL", "LINE 1"):
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
    assert [(failure.code, failure.transient) for failure in failures] == [
        ("sqlstate_57p03", True),
        ("sqlstate_57p01", True),
        ("warehouse_unreachable", True),
    ]

from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from orchestration.warehouse.embedded import EmbeddedServer


@pytest.fixture
def url(server: EmbeddedServer) -> str:
    return server.start()


def test_the_owner_is_no_superuser_but_makes_roles_and_databases(url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication"
            " from pg_roles where rolname = current_user"
        ).fetchone()
        owner = connection.execute(
            "select pg_get_userbyid(datdba) from pg_database where datname = current_database()"
        ).fetchone()
    assert row == (False, True, True, False, False)
    assert owner == ("sluice_owner",)


def test_the_owner_can_act_as_a_role_it_makes_and_pass_on_what_operators_need(
    server: EmbeddedServer, url: str
) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create role worker login")
        connection.execute("create role sealed nologin")
        connection.execute("grant sealed to worker with inherit false, set true")
        connection.execute("grant pg_read_all_stats, pg_signal_backend to worker")
        connection.execute("set role worker")
        assert connection.execute("select current_user").fetchone() == ("worker",)
    with psycopg.connect(server.url("worker")) as connection:
        connection.execute("set role sealed")
        assert connection.execute("select current_user").fetchone() == ("sealed",)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create database another template template0")


def test_the_owner_cannot_change_the_server(url: str) -> None:
    with (
        psycopg.connect(url, autocommit=True) as connection,
        pytest.raises(errors.InsufficientPrivilege),
    ):
        connection.execute("alter system set work_mem = '1GB'")


def test_the_superuser_is_there_for_repairs(server: EmbeddedServer, url: str) -> None:
    assert url != server.superuser_url()
    with psycopg.connect(server.superuser_url()) as connection:
        assert connection.execute("show is_superuser").fetchone() == ("on",)


def test_a_server_is_durable_unless_it_is_told_otherwise(open_folder: Path) -> None:
    server = EmbeddedServer(open_folder / "home")
    try:
        assert _settings(server.start()) == ("on", "on", "on", "UTC", "256", "", "off")
        server.stop()
        assert _settings(EmbeddedServer(server.home, durable=False).start())[:3] == (
            "off",
            "on",
            "off",
        )
    finally:
        server.destroy()


def _settings(url: str) -> tuple[str, ...]:
    names = (
        "fsync",
        "synchronous_commit",
        "full_page_writes",
        "timezone",
        "max_locks_per_transaction",
        "listen_addresses",
        "jit",
    )
    with psycopg.connect(url) as connection:
        found = [connection.execute(f"show {name}").fetchone() for name in names]
    return tuple(row[0] for row in found if row)


def test_no_value_and_no_statement_reaches_the_server_log(server: EmbeddedServer, url: str) -> None:
    secret = "secret-value-4711"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table t (a text primary key, b text not null)")
        connection.execute("insert into t values (%s, 'x')", [secret])
        for statement in (
            "insert into t values (%s, 'x')",
            "insert into t values (%s, null)",
            "select %s::int",
            f"select '{secret}'::date where %s is not null",
        ):
            with pytest.raises(psycopg.Error):
                connection.execute(statement, [secret])
        with pytest.raises(errors.RaiseException):
            connection.execute(f"do $$ begin raise '{secret}'; end $$")
    server.stop()
    logs = server.status().logs
    assert logs is not None
    files = [*logs.glob("*"), logs.parent / "start.log"]
    text = "".join(path.read_text() for path in files)
    assert "database system is shut down" in text
    assert secret not in text
    assert "insert into" not in text


def test_text_sorts_and_compares_the_same_on_every_machine(url: str) -> None:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "select array_agg(x order by x), lower('ÄB'), getdatabaseencoding()"
            " from unnest(array['b', 'B', 'a', 'ä', '_']) x"
        ).fetchone()
    assert row == (["B", "_", "a", "b", "ä"], "äb", "UTF8")

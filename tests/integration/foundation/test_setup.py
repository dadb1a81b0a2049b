"""The warehouse is brought up to date once, safely, and refused when it is newer than the code."""

import psycopg
import pytest

from orchestration.errors import ConfigurationError
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.migrations import load_migrations, migrate, pending_migrations
from orchestration.warehouse.setup import is_set_up, set_up


def test_setting_up_twice_changes_nothing(warehouse: Warehouse) -> None:
    again = set_up(warehouse)
    assert again.migrations == []
    assert again.live_views == []
    assert is_set_up(warehouse)


def test_migrations_are_numbered_once_each_and_no_number_is_left_out() -> None:
    numbers = [migration.number for migration in load_migrations()]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))


def test_a_database_newer_than_the_code_is_refused(warehouse: Warehouse) -> None:
    with warehouse.connect(autocommit=True) as connection:
        connection.execute("insert into ops.schema_migrations values (9999, 'future', 'x', now())")
        with pytest.raises(ConfigurationError, match="newer Sluice"):
            migrate(connection)


def test_a_migration_that_changed_after_it_was_applied_is_refused(warehouse: Warehouse) -> None:
    with warehouse.connect(autocommit=True) as connection:
        connection.execute("update ops.schema_migrations set checksum = 'other' where number = 2")
        with pytest.raises(ConfigurationError, match="put the change into a new migration"):
            pending_migrations(connection)


@pytest.mark.parametrize("role", list(Role))
def test_every_stage_logs_in_as_its_own_role(warehouse: Warehouse, role: Role) -> None:
    with warehouse.connect(role) as connection:
        row = connection.execute(
            "select current_user, current_setting('timezone'), rolsuper, rolcreaterole "
            "from pg_roles where rolname = current_user"
        ).fetchone()
    assert row == (role.value, "UTC", False, False)


FORBIDDEN = [
    (Role.GATE, "insert into ops.operator_actions (action, target, reason) values ('a', 'b', 'c')"),
    (Role.GATE, "create table staging.mine (a int)"),
    (Role.EXTRACTOR, "update staging.flights__weather set temp = 0"),
    (Role.EXTRACTOR, "truncate staging.flights__weather"),
    (Role.EXTRACTOR, "insert into ops.publications (pipeline, version_id) values ('a', 'b')"),
    (Role.EXTRACTOR, "create view analytics.mine as select 1"),
    (Role.TRANSFORMER, "create view analytics.mine as select 1"),
    (Role.TRANSFORMER, "create view slot_a.mine as select 1"),
    (Role.TRANSFORMER, "insert into staging.flights__weather (origin) values ('EWR')"),
    (Role.TRANSFORMER, "update ops.publication_pointer set active_slot = 'a'"),
    (Role.PUBLISHER, "create table store.mine (a int)"),
    (Role.PUBLISHER, "insert into staging.flights__weather (origin) values ('EWR')"),
    (Role.PUBLISHER, "update ops.artifacts set state = 'adopted'"),
    (Role.RUNNER, "insert into staging.flights__weather (origin) values ('EWR')"),
    (Role.RUNNER, "update ops.publication_pointer set active_slot = 'a'"),
    (Role.RUNNER, "create table store.mine (a int)"),
    (Role.ANALYST, "create table store.mine (a int)"),
    (Role.ANALYST, "delete from ops.runs"),
    (Role.ANALYST, "select payload from quarantine.records"),
    (Role.REVIEWER, "update quarantine.records set payload = '{}'"),
    (Role.REVIEWER, "delete from quarantine.records"),
    (Role.WEBHOOK, "select * from ops.inbox"),
    (Role.WEBHOOK, "select * from ops.runs"),
    (Role.WEBHOOK, "insert into ops.inbox_work (inbox_id, pipeline) values (1, 'flights')"),
    (Role.WEBHOOK, "update ops.inbox set event = '{}'"),
    (Role.WEBHOOK, "delete from ops.inbox"),
    (Role.WEBHOOK, "select ops.forget_events(30)"),
    (Role.WEBHOOK, "select ops.acquire_lease('run/r', 'me', interval '1 minute')"),
    (Role.WEBHOOK, "create table public.mine (a int)"),
    (Role.CONSOLE, "select payload from quarantine.records"),
    (Role.CONSOLE, "select * from staging.flights__weather"),
    (
        Role.CONSOLE,
        "insert into ops.operator_actions (action, target, reason) values ('a', 'b', 'c')",
    ),
    (
        Role.CONSOLE,
        "set default_transaction_read_only = off; update ops.runs set owner = 'me@example.com'",
    ),
    (Role.CONSOLE, "select ops.receive_event('a', 'b', repeat('0', 64), '{}', '{}')"),
]


@pytest.mark.parametrize(("role", "statement"), FORBIDDEN)
def test_a_role_cannot_do_the_work_of_another(
    warehouse: Warehouse, role: Role, statement: str
) -> None:
    with (
        warehouse.connect(role) as connection,
        pytest.raises(
            (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)
        ),
    ):
        connection.execute(statement.encode())

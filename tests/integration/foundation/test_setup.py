"""The warehouse is brought up to date once, safely, and refused when it is newer than the code."""

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

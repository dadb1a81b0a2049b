"""`sluice roles list|sync`: the roles of the stages, where their passwords come from, who can log in."""

from typing import Any

import psycopg

from orchestration.cli.output import print_json, print_rows, say
from orchestration.cli.session import open_warehouse, read_settings
from orchestration.errors import EXIT_CODES, FailureKind
from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.roles import ensure_roles


def list_roles(*, as_json: bool) -> None:
    _print(_rows(open_warehouse(read_settings())), as_json=as_json)


def sync_roles(*, as_json: bool) -> None:
    """Makes roles that are missing and sets the password of each, as the owner."""
    settings = read_settings()
    warehouse = open_warehouse(settings, start=True)
    with warehouse.connect(autocommit=True) as connection:
        for warning in ensure_roles(warehouse, connection):
            say(f"warning: {warning}")
    rows = _rows(warehouse)
    _print(rows, as_json=as_json)
    if not all(row["can_log_in"] for row in rows):
        raise SystemExit(EXIT_CODES[FailureKind.CONFIGURATION])


def _rows(warehouse: Warehouse) -> list[dict[str, Any]]:
    return [
        {
            "role": role.value,
            "password": warehouse.password_source(role),
            "can_log_in": _can_log_in(warehouse, role),
        }
        for role in Role
    ]


def _can_log_in(warehouse: Warehouse, role: Role) -> bool:
    try:
        with warehouse.connect(role):
            return True
    except psycopg.OperationalError:
        return False


def _print(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    print_rows("roles", ["role", "password", "can_log_in"], rows, "there is no role")

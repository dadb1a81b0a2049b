"""The sources as dbt sees them: one view for each resource, over the artifacts of one manifest.

A session says which by the setting `sluice.manifest`; one that does not sees what is published.
Views are only touched when they would change, since replacing one locks out its readers.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import psycopg
from psycopg import sql

from orchestration.errors import ConfigurationError
from orchestration.identity import digest
from orchestration.sql.queries import query
from orchestration.warehouse.connections import Role
from orchestration.warehouse.names import identifier, qualified, staging_table
from orchestration.warehouse.roles import STORE_ROLE
from orchestration.warehouse.segments.texts import shown_column

LIVE_SCHEMA = "live"
STAGING_SCHEMA = "staging"
MANIFEST_SETTING = "sluice.manifest"
_READERS = (Role.TRANSFORMER, Role.GATE, Role.ANALYST, STORE_ROLE)
_STAMP = "Shows one manifest's artifacts. Definition "


def ensure_live_views(
    connection: psycopg.Connection, resources: Mapping[str, Sequence[str]]
) -> list[str]:
    """Makes schema live show these resources; returns the names of the views that changed.

    `resources` maps a full resource name to all columns of its view. The owner's connection; one
    transaction for each view, so in autocommit. Columns of an existing view keep their order and
    stay while staging has them, new ones follow. Raises `ConfigurationError` when a column changed
    its type, or when staging lacks one.
    """
    changed = []
    for resource, wanted in sorted(resources.items()):
        table = staging_table(resource)
        with connection.transaction():
            staged = _columns(connection, STAGING_SCHEMA, table)
            shown = _columns(connection, LIVE_SCHEMA, table)
            if missing := [name for name in wanted if name not in staged]:
                raise ConfigurationError(
                    f"staging.{table} has no column {', '.join(missing)}; load {resource} once, "
                    "then try again",
                    code="staging_incomplete",
                )
            columns = [name for name in shown if name in staged]
            columns += [name for name in wanted if name not in shown]
            statement = _definition(connection, resource, columns)
            types = [staged[name] for name in columns]
            stamp = _STAMP + hashlib.sha256(f"{statement}{types}".encode()).hexdigest()[:16]
            if _comment(connection, table) == stamp:
                continue
            _replace(connection, table, statement, stamp)
            changed.append(table)
    return changed


def live_columns(connection: psycopg.Connection, resources: Iterable[str]) -> dict[str, list[str]]:
    """resource → the columns of its view, in order; any role that can read schema live."""
    return {
        resource: list(_columns(connection, LIVE_SCHEMA, staging_table(resource)))
        for resource in resources
    }


def live_shapes(connection: psycopg.Connection, resources: Iterable[str]) -> dict[str, str]:
    """resource → digest of the names and types its view has; any role that can read schema live.

    Independent of their order, which depends on when each column was added.
    """
    return {
        resource: digest(sorted(_columns(connection, LIVE_SCHEMA, staging_table(resource)).items()))
        for resource in resources
    }


def _definition(connection: psycopg.Connection, resource: str, columns: Sequence[str]) -> str:
    table = staging_table(resource)
    return (
        sql.SQL(query("live_view"))
        .format(
            view=qualified(LIVE_SCHEMA, table),
            columns=sql.SQL(", ").join(shown_column(name) for name in columns),
            table=qualified(STAGING_SCHEMA, table),
            resource=sql.Literal(resource),
        )
        .as_string(connection)
    )


def _replace(connection: psycopg.Connection, table: str, statement: str, stamp: str) -> None:
    view = qualified(LIVE_SCHEMA, table)
    try:
        connection.execute(statement.encode())
    except psycopg.errors.InvalidTableDefinition as error:
        raise ConfigurationError(
            f"live.{table} cannot become what staging.{table} is ({error.diag.message_primary}): "
            "models in the store read it as it was. Give the changed field a new name instead",
            code="live_view_changed",
        ) from None
    connection.execute(sql.SQL("comment on view {} is {}").format(view, sql.Literal(stamp)))
    connection.execute(
        sql.SQL("grant select on {} to {}").format(
            view, sql.SQL(", ").join(identifier(role) for role in _READERS)
        )
    )


def _columns(connection: psycopg.Connection, schema: str, table: str) -> dict[str, str]:
    rows = connection.execute(query("live_columns"), {"schema": schema, "table": table}).fetchall()
    return dict(rows)


def _comment(connection: psycopg.Connection, table: str) -> str | None:
    row = connection.execute(
        "select obj_description(to_regclass(%s), 'pg_class')", [f"{LIVE_SCHEMA}.{table}"]
    ).fetchone()
    return row[0] if row else None

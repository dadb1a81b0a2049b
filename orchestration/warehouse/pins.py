"""A pinned version's own schema: its published models as views that people may read for long."""

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import sql

from orchestration.errors import DestinationFailure
from orchestration.warehouse.fence import Lease, assert_fence
from orchestration.warehouse.names import identifier, qualified
from orchestration.warehouse.segments.places import STORE_SCHEMA


def show_pinned_version(
    connection: psycopg.Connection,
    version_id: str,
    models: Mapping[str, str],
    readers: Sequence[str],
    lease: Lease,
) -> None:
    """Makes schema `version_id` with a view for each model, which the readers may select from.

    `models` maps model → adopted relation. One transaction; the transformer's connection. A view that
    a gate made there stays as it is: it shows the same rows. Raises `LeaseLost`, or
    `DestinationFailure` when a relation is not in the store.
    """
    with connection.transaction():
        assert_fence(connection, lease)
        connection.execute("select ops.create_version_schema(%s)", [version_id])
        connection.execute("select ops.open_version_schema(%s)", [version_id])
        for model, relation in sorted(models.items()):
            view = qualified(version_id, model)
            try:
                with connection.transaction():
                    connection.execute(_definition(connection, view, relation))
            except psycopg.errors.InvalidTableDefinition:
                pass
            connection.execute(
                sql.SQL("grant select on {} to {}").format(
                    view, sql.SQL(", ").join(identifier(role) for role in readers)
                )
            )


def _definition(connection: psycopg.Connection, view: sql.Composed, relation: str) -> sql.Composed:
    row = connection.execute(
        "select columns from ops.relations where relation_name = %s and state = 'adopted'",
        [relation],
    ).fetchone()
    if row is None:
        raise DestinationFailure(
            f"store.{relation} is gone, so the version cannot be shown; run the pipeline again to "
            "build it",
            code="relation_missing",
        )
    # A name that starts with an underscore is Sluice's own.
    names = [column["name"] for column in row[0] if not column["name"].startswith("_")]
    return sql.SQL("create or replace view {} as select {} from {}").format(
        view, sql.SQL(", ").join(map(sql.Identifier, names)), qualified(STORE_SCHEMA, relation)
    )

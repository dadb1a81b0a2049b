"""Makes published views anew under their readers, or takes them away: one transaction, or nothing.

The caller's transaction holds pointer and fence and has a lock_timeout. Views that other people's
views stand on are set aside in schema `former`, where they show the new view in their old shape; what
would need a column that goes is refused, again, under the lock.
"""

from collections.abc import Sequence
from contextlib import suppress

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from orchestration.errors import ConfigurationError
from orchestration.publication.appearance import Appearance, read_appearance, restore_appearance
from orchestration.publication.dependants import find_dependants
from orchestration.publication.plan import ReshapeModel, WithdrawModel
from orchestration.publication.shape_rules import in_use, losses, shape_in_use
from orchestration.publication.shapes import Column, Shape, columns_to_json
from orchestration.publication.views import (
    DEFERRED_SCHEMA,
    PARTITION,
    PUBLISHED_SCHEMA,
    Schema,
    Slot,
    options_clause,
    published_view,
    slot_schema,
    slot_view_name,
)
from orchestration.sql.queries import query
from orchestration.warehouse.names import identifier, qualified, statement

FORMER_SCHEMA = "former"
ViewName = tuple[str, str]
"""Schema and name."""


def readers_views(connection: psycopg.Connection, model: str) -> list[ViewName]:
    """The views of a model that people may hold, in the order in which a reader locks them."""
    rows = connection.execute(query("publication_readers_views"), {"model": model}).fetchall()
    return [(schema, name) for schema, name in rows]


def register_model(connection: psycopg.Connection, pipeline: str, model: str, shape: Shape) -> None:
    """Raises `ConfigurationError` (`model_taken`) when another pipeline claimed it meanwhile."""
    claimed = connection.execute(
        query("publication_register_model"),
        {
            "model": model,
            "pipeline": pipeline,
            "columns": Jsonb(columns_to_json(shape.columns)),
            "shape": shape.number,
            "renamed": Jsonb(dict(shape.renamed)),
        },
    ).fetchone()
    if claimed is None:
        raise ConfigurationError(
            f"another pipeline publishes {model} since a moment ago; take it out of one of the two",
            code="model_taken",
        )


def reshape_model(connection: psycopg.Connection, pipeline: str, step: ReshapeModel) -> None:
    """From here on readers see the next shape, of the version that they saw before.

    Raises `ConfigurationError` (`shape_in_use`), `psycopg.errors.LockNotAvailable`.
    """
    model, shape = step.model, step.shape
    looks = _lock(connection, readers_views(connection, model))
    changes = {model: step.change}
    if needed := in_use(changes, (), find_dependants(connection, [model])):
        raise shape_in_use(needed)
    aside = [
        _replace(connection, pipeline, step, schema, looks[schema, model])
        for schema in (PUBLISHED_SCHEMA, DEFERRED_SCHEMA)
        if (schema, model) in looks
    ]
    for schema, name in looks:
        if schema == FORMER_SCHEMA:
            _stand_in(connection, step, (schema, name), looks[schema, name])
    for schema, name in aside:
        _drop_or_keep(connection, step, (schema, name), looks[schema, model])
    drop_slot_views(connection, model, shape.number - 1)
    register_model(connection, pipeline, model, shape)
    _note(connection, "change_shape", _told(step), step.reason)


def withdraw_model(connection: psycopg.Connection, step: WithdrawModel) -> None:
    """Takes the model's views away, and what analysts have built on them as views.

    Raises `ConfigurationError` (`shape_in_use`), `psycopg.errors.LockNotAvailable`.
    """
    names = readers_views(connection, step.model)
    _lock(connection, names)
    if needed := in_use({}, [step.model], find_dependants(connection, [step.model])):
        raise shape_in_use(needed)
    for schema, name in names:
        connection.execute(
            statement("drop view if exists {view} cascade", view=qualified(schema, name))
        )
    drop_slot_views(connection, step.model)
    connection.execute("delete from ops.published_models where model = %s", [step.model])
    _note(connection, "withdraw_model", step.model, step.reason)


def drop_slot_views(connection: psycopg.Connection, model: str, shape: int | None = None) -> None:
    """Drops the model's slot views of one shape, or of all, and forgets them.

    One that somebody built on stays, and stays known, so that what it shows is kept.
    """
    rows = connection.execute(
        "select slot, shape from ops.slot_views where model = %s and coalesce(shape = %s, true)",
        [model, shape],
    ).fetchall()
    for slot, number in rows:
        with suppress(psycopg.errors.DependentObjectsStillExist), connection.transaction():
            drop_slot_view(connection, slot, model, number)


def drop_slot_view(connection: psycopg.Connection, slot: Slot, model: str, shape: int) -> None:
    """Raises `psycopg.errors.DependentObjectsStillExist`, `psycopg.errors.LockNotAvailable`."""
    view = qualified(slot_schema(slot), slot_view_name(model, shape))
    connection.execute(statement("drop view if exists {view}", view=view))
    connection.execute(
        "delete from ops.slot_views where slot = %s and model = %s and shape = %s",
        [slot, model, shape],
    )


def drop_former_view(connection: psycopg.Connection, name: str) -> None:
    """Drops a view of schema former. Raises `psycopg.Error` while it is held or read."""
    connection.execute(statement("drop view {view}", view=qualified(FORMER_SCHEMA, name)))


def _lock(connection: psycopg.Connection, names: Sequence[ViewName]) -> dict[ViewName, Appearance]:
    """Locks out readers of these views (not of what they read, as LOCK TABLE would)."""
    looks: dict[ViewName, Appearance] = {}
    for schema, name in names:
        if look := read_appearance(connection, schema, name):
            connection.execute(
                statement(
                    "alter view {view} owner to {owner}",
                    view=qualified(schema, name),
                    owner=sql.Identifier(look.owner),
                )
            )
            # Read again: grants may have changed until the lock was there.
            looks[schema, name] = read_appearance(connection, schema, name) or look
    return looks


def _replace(
    connection: psycopg.Connection,
    pipeline: str,
    step: ReshapeModel,
    schema: Schema,
    look: Appearance,
) -> ViewName:
    """Puts a view of the next shape in the place of the present one, which gets another name."""
    mark = "p" if schema == DEFERRED_SCHEMA else ""
    aside = f"{step.model}__shape{step.shape.number - 1}{mark}"
    connection.execute(
        statement(
            "alter view {view} rename to {aside}",
            view=qualified(schema, step.model),
            aside=identifier(aside),
        )
    )
    columns = _columns(schema, step.shape)
    connection.execute(
        published_view(
            pipeline, step.model, columns, look.options, schema=schema, shape=step.shape.number
        )
    )
    restore_appearance(connection, schema, step.model, look, [column.name for column in columns])
    return schema, aside


def _drop_or_keep(
    connection: psycopg.Connection, step: ReshapeModel, aside: ViewName, look: Appearance
) -> None:
    schema, name = aside
    try:
        with connection.transaction():
            connection.execute(statement("drop view {view}", view=qualified(schema, name)))
    except psycopg.errors.DependentObjectsStillExist:
        connection.execute(
            statement(
                "alter view {view} set schema {former}",
                view=qualified(schema, name),
                former=identifier(FORMER_SCHEMA),
            )
        )
        _stand_in(connection, step, (FORMER_SCHEMA, name), look)


def _stand_in(
    connection: psycopg.Connection, step: ReshapeModel, former: ViewName, look: Appearance
) -> None:
    """Has a former view show the new one; what that lacks is null, and nobody's work needs it."""
    schema: Schema = DEFERRED_SCHEMA if former[1].endswith("p") else PUBLISHED_SCHEMA
    has = set(_columns(schema, step.shape))
    rows = connection.execute(
        "select attname, format_type(atttypid, atttypmod) from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0 order by attnum",
        [".".join(former)],
    ).fetchall()
    columns = [
        sql.Identifier(column.name)
        if column in has
        else sql.SQL("null::{} as {}").format(sql.SQL(column.type), sql.Identifier(column.name))
        for column in (Column(*row) for row in rows)
    ]
    connection.execute(
        statement(
            "create or replace view {former} {options} as select {columns} from {view}",
            former=qualified(*former),
            options=options_clause(look.options),
            columns=sql.SQL(", ").join(columns),
            view=qualified(schema, step.model),
        )
    )


def _told(step: ReshapeModel) -> str:
    """What readers of the model lose, with new names where columns were renamed."""
    new_names = {f"{step.model}.{old}": new for new, old in step.shape.renamed.items()}
    return "; ".join(
        f"{lost.subject} is now {new_names[lost.subject]}"
        if lost.subject in new_names and lost.kind == "drop"
        else lost.text
        for lost in losses({step.model: step.change})
    )


def _columns(schema: Schema, shape: Shape) -> tuple[Column, ...]:
    return (*shape.columns, PARTITION) if schema == DEFERRED_SCHEMA else shape.columns


def _note(connection: psycopg.Connection, action: str, target: str, reason: str) -> None:
    connection.execute(
        "insert into ops.operator_actions (action, target, reason) values (%s, %s, %s)",
        [action, target, reason],
    )

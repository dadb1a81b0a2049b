"""The text of slot views and published views. It decides what a reader can ever see.

The planner pulls a branch of UNION ALL up only when the branch has no WHERE and both branches have
exactly the same types; then the condition is a one-time filter, the idle branch is never executed,
and indexes, max and limit work as on the relation itself.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg import sql

from orchestration.publication.shapes import Column
from orchestration.warehouse.names import identifier, qualified, statement

Slot = Literal["a", "b"]
SLOTS: tuple[Slot, Slot] = ("a", "b")
PUBLISHED_SCHEMA = "analytics"
STORE_SCHEMA = "store"
READERS = ("sluice_reader", "sluice_analyst", "sluice_reviewer")
HIDDEN_COLUMNS = (Column("_slot", "text"), Column("_stamp", "text"), Column("_live", "boolean"))


@dataclass(frozen=True)
class Source:
    """What a slot view selects from, with its columns as they are in the store.

    It is a version's relation itself, or for a partitioned model the companion of that relation: it
    has the rows of all segments below it, and `_live` says which of them count.
    """

    name: str
    columns: tuple[Column, ...]


def other_slot(slot: Slot) -> Slot:
    return "b" if slot == "a" else "a"


def slot_schema(slot: Slot) -> str:
    return f"slot_{slot}"


def slot_view(
    slot: Slot,
    model: str,
    relation: str,
    source: Source,
    columns: Sequence[Column],
) -> sql.Composed:
    """`CREATE OR REPLACE VIEW slot_<slot>.<model>` over one relation of the store.

    `_stamp` says which relation the view shows, whatever source it reads it from; a column that the
    source lacks is null. A source that hides some of its rows says so in a boolean column `_live`.
    """
    present = {column.name for column in source.columns}
    return statement(
        "create or replace view {view} as select {slot}::text as _slot, {stamp}::text as _stamp, "
        "{live} as _live, {columns} from {relation} as r",
        view=qualified(slot_schema(slot), model),
        slot=sql.Literal(slot),
        stamp=sql.Literal(relation),
        live=sql.SQL("r._live" if "_live" in present else "true"),
        columns=_list(_expression(column, column.name in present) for column in columns),
        relation=qualified(STORE_SCHEMA, source.name),
    )


def published_view(
    pipeline: str, model: str, columns: Sequence[Column], options: Sequence[str] = ()
) -> sql.Composed:
    """`CREATE OR REPLACE VIEW analytics.<model>`, keeping the view options it has (`name=value`).

    A row is shown when its slot is the one that the pointer names. If the view in that slot shows
    another relation than the pointer's version lists for this model, the read fails: the pointer
    comes from the reader's snapshot, the text of the slot's view may be younger. Each fact is a
    sub-select of its own, read once for a whole query.
    """
    return statement(
        "create or replace view {view} {options} as select {columns} from ("
        " select _slot, _stamp, _live, {columns} from {slot_a}"
        " union all"
        " select _slot, _stamp, _live, {columns} from {slot_b}"
        ") as u where case"
        " when u._slot <> (select p.active_slot from ops.publication_pointer as p"
        " where p.pipeline = {pipeline}) then false"
        " when u._stamp = (select m.relation_name from ops.publication_pointer as p"
        " join ops.version_models as m on m.version_id = p.version_id"
        " where p.pipeline = {pipeline} and m.model = {model} and m.published) then true"
        " else ops.refuse_read({model}, (select coalesce(m.relation_name, '')"
        " from ops.publication_pointer as p"
        " left join ops.version_models as m"
        " on m.version_id = p.version_id and m.model = {model} and m.published"
        " where p.pipeline = {pipeline})) end"
        " and u._live",
        view=qualified(PUBLISHED_SCHEMA, model),
        options=_options(options),
        columns=_list(sql.Identifier(column.name) for column in columns),
        slot_a=qualified(slot_schema("a"), model),
        slot_b=qualified(slot_schema("b"), model),
        pipeline=sql.Literal(pipeline),
        model=sql.Literal(model),
    )


def grant_to_readers(model: str) -> sql.Composed:
    """Said once, when the view is made: what an administrator takes away later stays away."""
    return statement(
        "grant select on {view} to {readers}",
        view=qualified(PUBLISHED_SCHEMA, model),
        readers=_list(identifier(reader) for reader in READERS),
    )


def _expression(column: Column, present: bool) -> sql.Composable:
    if present:
        return sql.Identifier("r", column.name)
    # The type is what format_type wrote, which is SQL.
    return sql.SQL("null::{} as {}").format(sql.SQL(column.type), sql.Identifier(column.name))


def _options(options: Sequence[str]) -> sql.Composable:
    if not options:
        return sql.SQL("")
    pairs = (option.partition("=") for option in options)
    return sql.SQL("with ({})").format(
        _list(
            sql.SQL("{}={}").format(identifier(name), sql.Literal(value))
            for name, _, value in pairs
        )
    )


def _list(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)

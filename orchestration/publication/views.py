"""The text of slot views and published views. It decides what a reader can ever see.

The planner pulls a branch of UNION ALL up only when the branch has no WHERE and both branches have
exactly the same types; then the condition is a one-time filter, the idle branch is never executed,
and indexes, max and limit work as on the relation itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from psycopg import sql

from orchestration.publication.shapes import Column
from orchestration.warehouse.names import identifier, qualified, statement

Slot = Literal["a", "b"]
SLOTS: tuple[Slot, Slot] = ("a", "b")
Schema = Literal["analytics", "deferred"]
PUBLISHED_SCHEMA: Schema = "analytics"
DEFERRED_SCHEMA: Schema = "deferred"
"""The same rows with `_partition`, for dbt and analysts who build partitioned models on them."""
STORE_SCHEMA = "store"
READERS: Mapping[Schema, tuple[str, ...]] = {
    PUBLISHED_SCHEMA: ("sluice_reader", "sluice_analyst", "sluice_reviewer"),
    DEFERRED_SCHEMA: ("sluice_analyst", "sluice_transformer"),
}
HIDDEN_COLUMNS = (Column("_slot", "text"), Column("_stamp", "text"), Column("_live", "boolean"))
PARTITION = Column("_partition", "text")


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


def slot_view_name(model: str, shape: int) -> str:
    """The views of a later shape stand beside those that people still read."""
    return model if shape == 1 else f"{model}__shape{shape}"


def slot_view(
    slot: Slot,
    view: str,
    relation: str,
    source: Source,
    columns: Sequence[Column],
    renamed: Mapping[str, str],
) -> sql.Composed:
    """`CREATE OR REPLACE VIEW slot_<slot>.<view>` over one relation of the store.

    `_stamp` says which relation the view shows, whatever source it reads it from; a column that the
    source lacks is null, one of another type is cast. A source that hides some of its rows says so
    in a boolean column `_live`.
    """
    has_live = any(column.name == "_live" for column in source.columns)
    return statement(
        "create or replace view {view} as select {slot}::text as _slot, {stamp}::text as _stamp, "
        "{live} as _live, {columns} from {source} as r",
        view=qualified(slot_schema(slot), view),
        slot=sql.Literal(slot),
        stamp=sql.Literal(relation),
        live=sql.SQL("r._live" if has_live else "true"),
        columns=_list(_expression(column, source, renamed) for column in columns),
        source=qualified(STORE_SCHEMA, source.name),
    )


def published_view(
    pipeline: str,
    model: str,
    columns: Sequence[Column],
    options: Sequence[str] = (),
    *,
    schema: Schema = PUBLISHED_SCHEMA,
    shape: int = 1,
) -> sql.Composed:
    """`CREATE OR REPLACE VIEW <schema>.<model>`, keeping the view options it has (`name=value`).

    A row is shown when its slot is the one that the pointer names. If the view in that slot shows
    another relation than the pointer's version lists for this model, the read fails: the pointer
    comes from the reader's snapshot, the text of the slot's view may be younger. Each fact is a
    sub-select of its own, read once for a whole query.
    """
    view = slot_view_name(model, shape)
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
        view=qualified(schema, model),
        options=options_clause(options),
        columns=_list(sql.Identifier(column.name) for column in columns),
        slot_a=qualified(slot_schema("a"), view),
        slot_b=qualified(slot_schema("b"), view),
        pipeline=sql.Literal(pipeline),
        model=sql.Literal(model),
    )


def grant_to_readers(schema: Schema, model: str) -> sql.Composed:
    """Said once, when the view is made: what an administrator takes away later stays away."""
    return statement(
        "grant select on {view} to {readers}",
        view=qualified(schema, model),
        readers=_list(identifier(reader) for reader in READERS[schema]),
    )


def casts(
    columns: Iterable[Column], source: Source, renamed: Mapping[str, str]
) -> Iterator[tuple[Column, Column]]:
    """(as the source has it, as it is to be) of each column that does not come as it is."""
    for column in columns:
        found = _find(column, source, renamed)
        if found is not None and found.type != column.type:
            yield found, column


def cast_text(found: Column, wanted: Column) -> sql.Composed:
    """An expression over `r`, the source; the type is what format_type wrote, which is SQL."""
    return sql.SQL("r.{}::{}").format(sql.Identifier(found.name), sql.SQL(wanted.type))


def _expression(column: Column, source: Source, renamed: Mapping[str, str]) -> sql.Composable:
    found = _find(column, source, renamed)
    if found == column:
        return sql.Identifier("r", column.name)
    value: sql.Composable = sql.SQL("null::{}").format(sql.SQL(column.type))
    if found is not None:
        value = cast_text(found, column)
    return sql.SQL("{} as {}").format(value, sql.Identifier(column.name))


def _find(column: Column, source: Source, renamed: Mapping[str, str]) -> Column | None:
    """The source's column: of this name, or of the one it had before it was renamed."""
    has = {item.name: item for item in source.columns}
    name: str | None = column.name
    seen: set[str] = set()
    while name is not None and name not in has and name not in seen:
        seen.add(name)
        name = renamed.get(name)
    return has.get(name) if name is not None else None


def options_clause(options: Sequence[str]) -> sql.Composable:
    """`with (name='value', …)`, or nothing."""
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

"""An analyst's own schema: what dbt has not built there yet stands in as a view of what is published.

So `dbt build -s one_model+` works in an empty schema: parents that were not selected are found. dbt
replaces a stand-in as soon as it builds the model.
"""

from contextlib import suppress

import psycopg
from psycopg import sql

from orchestration.warehouse.connections import Role, Warehouse
from orchestration.warehouse.names import qualified

_MISSING = """
select m.model, m.published, r.relation_name, r.kind
from ops.publication_pointer p
join ops.version_models m using (version_id)
join ops.relations r using (relation_name)
where to_regclass(format('%%I.%%I', %s::text, m.model)) is null
order by m.published, m.model
"""
_OUTDATED = """
select distinct v.relname
from pg_class v
join pg_rewrite w on w.ev_class = v.oid
join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
join pg_class read on d.refclassid = 'pg_class'::regclass and read.oid = d.refobjid
where v.relnamespace = to_regnamespace(%s) and v.relkind = 'v'
  and read.relnamespace = 'former'::regnamespace
  and v.relname = regexp_replace(read.relname, '__shape[0-9]+p?$', '')
"""
_READS_THE_STORE = """
select exists (
    select from pg_depend d
    join pg_rewrite w on w.oid = d.objid and d.classid = 'pg_rewrite'::regclass
    join pg_class read on read.oid = d.refobjid and d.refclassid = 'pg_class'::regclass
    where w.ev_class = %s::regclass and read.oid <> w.ev_class
      and read.relnamespace = 'store'::regnamespace
)
"""


def add_stand_ins(warehouse: Warehouse, schema: str) -> list[str]:
    """Adds a view for every published or staging model that `schema` lacks; returns their names.

    Published models are read through `analytics`, or through `deferred` where others read them by
    partition; staging views are repeated with their own text. So no stand-in keeps a relation of the
    store from being pruned. One that shows a model as it was before a change of shape is made again,
    unless the analyst's own views stand on it.
    """
    added = []
    with warehouse.connect(Role.ANALYST, autocommit=True) as connection:
        for (outdated,) in connection.execute(_OUTDATED, [schema]).fetchall():
            with suppress(psycopg.errors.DependentObjectsStillExist):
                connection.execute(sql.SQL("drop view {}").format(qualified(schema, outdated)))
        for model, published, relation, kind in connection.execute(_MISSING, [schema]).fetchall():
            if published:
                text = _published_text(connection, model)
            elif kind == "view" and not _reads_the_store(connection, relation):
                text = _view_text(connection, relation)
            else:
                continue
            try:
                connection.execute(
                    sql.SQL("create view {} as {}").format(qualified(schema, model), text)
                )
            except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation):
                continue
            added.append(model)
    return added


def _published_text(connection: psycopg.Connection, model: str) -> sql.Composable:
    rows = connection.execute(
        "select n.nspname, a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid "
        "join pg_namespace n on n.oid = c.relnamespace where a.attrelid = coalesce("
        "to_regclass(format('deferred.%%I', %s::text)), format('analytics.%%I', %s::text)::regclass) "
        "and a.attnum > 0 and not a.attisdropped order by a.attnum",
        [model, model],
    ).fetchall()
    names = sql.SQL(", ").join(sql.Identifier(name) for _, name in rows)
    return sql.SQL("select {} from {}").format(names, qualified(rows[0][0], model))


def _reads_the_store(connection: psycopg.Connection, relation: str) -> bool:
    row = connection.execute(_READS_THE_STORE, [f"store.{relation}"]).fetchone()
    return bool(row and row[0])


def _view_text(connection: psycopg.Connection, relation: str) -> sql.Composable:
    row = connection.execute(
        "select rtrim(pg_get_viewdef(%s::regclass), ';')", [f"store.{relation}"]
    ).fetchone()
    # The catalogue's own rendering of a view that dbt built and the store sealed.
    return sql.SQL(row[0] if row else "")

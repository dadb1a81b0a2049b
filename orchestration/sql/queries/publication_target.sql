-- The published models of a version, each with its relation and that relation's columns as they are.
select
    m.model,
    m.relation_name,
    coalesce(
        (
            select jsonb_agg(
                jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
                order by a.attnum
            )
            from pg_class as c
            join pg_namespace as n on n.oid = c.relnamespace
            join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            where n.nspname = 'store' and c.relname = m.relation_name
        ),
        '[]'
    ) as columns
from ops.version_models as m
where m.version_id = %(version_id)s and m.published
order by m.model

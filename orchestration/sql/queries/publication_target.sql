-- The published models of a version: what readers are to see, and the relation of the store that slot views read.
-- A partitioned model is read through the companion of its relation, which says which rows are live.
select
    m.model,
    m.relation_name,
    coalesce(r.columns, '[]') as columns,
    coalesce(source.name, m.relation_name) as source_name,
    coalesce(source.columns, '[]') as source_columns
from ops.version_models as m
left join ops.relations as r on r.relation_name = m.relation_name
left join lateral (
    select
        c.relname as name,
        (
            select jsonb_agg(
                jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
                order by a.attnum
            )
            from pg_attribute as a
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        ) as columns
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = 'store' and c.relname in (m.relation_name, m.relation_name || '__live')
    order by length(c.relname) desc
    limit 1
) as source on true
where m.version_id = %(version_id)s and m.published
order by m.model

-- The views of these models that people read, with their columns and the options somebody may have set on them.
select
    n.nspname as schema,
    v.relname as model,
    (
        select jsonb_agg(
            jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
            order by a.attnum
        )
        from pg_attribute as a
        where a.attrelid = v.oid and a.attnum > 0
    ) as columns,
    coalesce(v.reloptions, '{}') as options
from pg_class as v
join pg_namespace as n on n.oid = v.relnamespace
where n.nspname in ('analytics', 'deferred') and v.relkind = 'v' and v.relname = any(%(models)s)

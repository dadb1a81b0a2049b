-- Relations of schema store as the catalogue knows them: kind, owner, columns in order.
select
    c.relname as relation_name,
    case c.relkind when 'r' then 'table' else 'view' end as kind,
    pg_get_userbyid(c.relowner) as owner,
    (
        select jsonb_agg(
            jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
            order by a.attnum
        )
        from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ) as columns
from pg_class as c
inner join pg_namespace as n on c.relnamespace = n.oid
where n.nspname = 'store' and c.relkind in ('r', 'v') and c.relname = any(%(relations)s)

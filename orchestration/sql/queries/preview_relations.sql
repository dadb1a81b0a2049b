-- Relations of an analyst's schema: those with these names, and all that a preview made (with a mark).
select
    c.relname,
    case c.relkind when 'v' then 'view' else 'table' end as kind
from pg_class as c
inner join pg_namespace as n on c.relnamespace = n.oid
where
    n.nspname = %(schema)s
    and c.relkind in ('r', 'v')
    and (
        c.relname = any(%(names)s)
        or (
            %(mark)s::text is not null
            and (
                obj_description(c.oid, 'pg_class') = %(mark)s
                or c.relname ~ '__[0-9a-f]{12}(__dbt_(tmp|backup))?$'
                or c.relname ~ '__live$'
            )
        )
    )
order by c.oid

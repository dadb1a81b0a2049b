-- The views of a model that people may hold, in the order in which a reader locks them: former ones read the others.
select n.nspname, c.relname
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
where c.relkind = 'v'
    and (
        n.nspname in ('analytics', 'deferred') and c.relname = %(model)s
        or n.nspname = 'former' and regexp_replace(c.relname, '__shape[0-9]+p?$', '') = %(model)s
    )
order by n.nspname = 'former' desc, n.nspname, c.relname

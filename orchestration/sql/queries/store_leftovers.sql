-- Relations in schema store that were given up and never sealed; views first, they stand on the tables.
select
    c.relname as relation_name,
    case c.relkind when 'r' then 'table' else 'view' end as kind
from ops.relations as r
inner join pg_namespace as n on n.nspname = 'store'
inner join pg_class as c
    on
        c.relnamespace = n.oid
        and c.relname in (r.relation_name, r.relation_name || '__dbt_tmp', r.relation_name || '__live')
where
    r.state = 'abandoned' and c.relkind in ('r', 'v') and pg_get_userbyid(c.relowner) = current_user
order by c.relkind = 'r', c.oid desc

-- The columns of a relation in order: name, type.
select
    a.attname,
    format_type(a.atttypid, a.atttypmod)
from pg_attribute as a
inner join pg_class as c on a.attrelid = c.oid
inner join pg_namespace as n on c.relnamespace = n.oid
where n.nspname = %(schema)s and c.relname = %(table)s and a.attnum > 0 and not a.attisdropped
order by a.attnum

-- The columns of a relation as the catalogue has them, in order.
select
    jsonb_agg(
        jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
        order by a.attnum
    ) as columns
from pg_attribute as a
where
    a.attrelid = to_regclass(format('%%I.%%I', %(schema)s::text, %(name)s::text))
    and a.attnum > 0
    and not a.attisdropped

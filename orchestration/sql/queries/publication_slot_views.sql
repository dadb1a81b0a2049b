-- What the slots show of these models now: the view, its columns, what it reads, and the relation that this stands for.
select
    right(n.nspname, 1) as slot,
    named.model,
    named.shape,
    view_columns.list as columns,
    regexp_replace(below.name, '__live$', '') as relation_name,
    below.name as source_name,
    below.columns as source_columns,
    recorded.relation_name as recorded_relation_name
from pg_class as v
join pg_namespace as n on n.oid = v.relnamespace
cross join lateral (
    select
        regexp_replace(v.relname, '__shape[0-9]+$', '') as model,
        coalesce(substring(v.relname from '__shape([0-9]+)$')::integer, 1) as shape
) as named
cross join lateral (
    select jsonb_agg(
        jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
        order by a.attnum
    ) as list
    from pg_attribute as a
    where a.attrelid = v.oid and a.attnum > 0
) as view_columns
cross join lateral (
    select
        r.relname as name,
        (
            select jsonb_agg(
                jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod))
                order by a.attnum
            )
            from pg_attribute as a
            where a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
        ) as columns
    from pg_rewrite as w
    join pg_depend as d
        on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid and d.refclassid = 'pg_class'::regclass
    join pg_class as r on r.oid = d.refobjid and r.oid <> v.oid and r.relkind in ('r', 'v')
    where w.ev_class = v.oid
    limit 1
) as below
left join ops.slot_views as recorded
    on recorded.slot = right(n.nspname, 1)
    and recorded.model = named.model
    and recorded.shape = named.shape
where n.nspname in ('slot_a', 'slot_b') and v.relkind = 'v' and named.model = any(%(models)s)

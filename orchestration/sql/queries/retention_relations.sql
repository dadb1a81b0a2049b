-- The relations of the store: what each stands on there, which views elsewhere stand on it, and its size.
-- The view of a partitioned model is two objects: itself and <name>__live.
with objects as (
    select
        c.oid, c.relkind,
        case
            when r.relation_name is null and c.relname like '%%\_\_live' then left(c.relname, -6)
            else c.relname
        end as name
    from pg_class as c
    left join ops.relations as r on r.relation_name = c.relname
    where c.relnamespace = 'store'::regnamespace and c.relkind in ('r', 'v')
),

standing as (
    select distinct w.ev_class as upper, d.refobjid as lower
    from pg_rewrite as w
    join pg_depend as d on d.classid = 'pg_rewrite'::regclass and d.objid = w.oid
    where d.refclassid = 'pg_class'::regclass and d.refobjid <> w.ev_class
),

below as (
    select o.name, array_agg(distinct l.name) as reads
    from objects as o
    join standing as s on s.upper = o.oid
    join objects as l on l.oid = s.lower and l.name <> o.name
    group by o.name
),

above as (
    select o.name, array_agg(distinct n.nspname || '.' || c.relname) as readers
    from objects as o
    join standing as s on s.lower = o.oid
    join pg_class as c on c.oid = s.upper
    join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname not in ('store', 'slot_a', 'slot_b') and n.nspname !~ '^v_[0-9a-f]{16}$'
    group by o.name
),

sizes as (
    select o.name, max(o.oid::bigint) as newest, sum(pg_total_relation_size(o.oid))::bigint as bytes
    from objects as o
    group by o.name
)

select
    r.relation_name as name, r.model, r.kind, r.state, r.run_id, r.created_at,
    s.name is not null as "exists", coalesce(s.newest, 0) as "order", coalesce(s.bytes, 0) as bytes,
    coalesce(b.reads, '{}') || coalesce(
        (select array_agg(v.segment_name) from ops.view_segments as v where v.view_name = r.relation_name), '{}'
    ) as reads,
    coalesce(a.readers, '{}') as readers
from ops.relations as r
left join sizes as s on s.name = r.relation_name
left join below as b on b.name = r.relation_name
left join above as a on a.name = r.relation_name

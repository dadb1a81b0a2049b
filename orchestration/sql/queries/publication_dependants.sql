-- What other people made that needs published views of these models, directly or (indirect) through each other.
-- Views of schema former stand for the published view that they were: what needs one of them needs the model.
with recursive ours as (
    select c.oid, c.reltype, regexp_replace(c.relname, '__shape[0-9]+p?$', '') as model
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    where c.relkind = 'v'
        and (
            n.nspname in ('analytics', 'deferred') and c.relname = any(%(models)s)
            or n.nspname = 'former' and regexp_replace(c.relname, '__shape[0-9]+p?$', '') = any(%(models)s)
        )
),

-- Views and rules that name a column, or only the whole relation.
reading as (
    select
        o.model, a.attname::text as column_name, 'pg_class'::regclass::oid as class, w.ev_class as object,
        case when w.ev_class = o.oid then 'attached' when a.attname is null then 'whole' else 'column' end as how
    from ours as o
    join pg_depend as d
        on d.refclassid = 'pg_class'::regclass and d.refobjid = o.oid and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite as w on w.oid = d.objid
    left join pg_attribute as a
        on a.attrelid = o.oid and a.attnum = d.refobjsubid and d.refobjsubid > 0
    where w.ev_class not in (select i.oid from ours as i)
        or w.ev_class = o.oid and w.rulename <> '_RETURN'
),

-- Functions with a body that Postgres has parsed; triggers and defaults of the view itself.
using_it as (
    select
        o.model, a.attname::text, d.classid, d.objid,
        case when d.deptype = 'a' then 'attached' when a.attname is null then 'whole' else 'column' end
    from ours as o
    join pg_depend as d on d.refclassid = 'pg_class'::regclass and d.refobjid = o.oid
    left join pg_attribute as a
        on a.attrelid = o.oid and a.attnum = d.refobjsubid and d.refobjsubid > 0
    where d.classid <> 'pg_rewrite'::regclass and d.deptype in ('n', 'a')
),

-- Functions and columns whose type is a row of the view.
typed as (
    select o.model, null::text, d.classid, d.objid, 'type'
    from ours as o
    join pg_type as t on t.oid = o.reltype
    join pg_depend as d
        on d.refclassid = 'pg_type'::regclass and d.refobjid in (t.oid, t.typarray) and d.deptype = 'n'
),

direct as (
    select r.model, r.column_name, r.class, r.object, r.how from reading as r
    union
    select * from using_it
    union
    select * from typed
),

indirect as (
    select d.model, d.class, d.object
    from direct as d
    union
    select i.model, 'pg_class'::regclass::oid, w.ev_class
    from indirect as i
    join pg_depend as d
        on d.refclassid = i.class and d.refobjid = i.object and d.classid = 'pg_rewrite'::regclass
    join pg_rewrite as w on w.oid = d.objid and w.ev_class <> i.object
),

found as (
    select d.model, d.column_name, d.class, d.object, d.how from direct as d
    union all
    select i.model, null, i.class, i.object, 'indirect'
    from indirect as i
    where not exists (
        select from direct as d
        where d.model = i.model and d.class = i.class and d.object = i.object
    )
)

select
    f.model,
    f.column_name,
    f.how,
    named.type || ' ' || named.identity as name,
    pg_get_userbyid(coalesce(c.relowner, p.proowner)) as owner,
    coalesce(coalesce(named.schema, cn.nspname) like 'dev\_%%', false) as is_development
from found as f
cross join lateral pg_identify_object(f.class, f.object, 0) as named
left join pg_class as c on f.class = 'pg_class'::regclass and c.oid = f.object
left join pg_namespace as cn on cn.oid = c.relnamespace
left join pg_proc as p on f.class = 'pg_proc'::regclass and p.oid = f.object
order by f.model, name, f.column_name

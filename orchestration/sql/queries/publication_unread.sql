-- Views of schema former that nothing needs any more.
select c.relname::text
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
join pg_type as t on t.oid = c.reltype
where n.nspname = 'former'
    and c.relkind = 'v'
    and regexp_replace(c.relname, '__shape[0-9]+p?$', '') = any(%(models)s)
    and not exists (
        select from pg_depend as d
        left join pg_rewrite as w on d.classid = 'pg_rewrite'::regclass and w.oid = d.objid
        where d.deptype = 'n'
            and (
                d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid
                or d.refclassid = 'pg_type'::regclass and d.refobjid in (t.oid, t.typarray)
            )
            and w.ev_class is distinct from c.oid
    )
order by 1

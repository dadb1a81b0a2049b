-- All that people may have done to a view that a new one in its place must have as well.
select
    pg_get_userbyid(v.relowner) as owner,
    coalesce(v.reloptions, '{}') as options,
    obj_description(v.oid, 'pg_class') as comment,
    coalesce(
        (
            select jsonb_object_agg(a.attname, d.description)
            from pg_description as d
            join pg_attribute as a on a.attrelid = d.objoid and a.attnum = d.objsubid
            where d.classoid = 'pg_class'::regclass and d.objoid = v.oid and d.objsubid > 0
        ),
        '{}'
    ) as column_comments,
    (
        select coalesce(jsonb_agg(to_jsonb(g) order by g.grantee, g.privilege, g.on_column), '[]')
        from (
            select
                case when e.grantee <> 0 then pg_get_userbyid(e.grantee) end as grantee,
                e.privilege_type as privilege, e.is_grantable as grantable, null::text as on_column
            from aclexplode(coalesce(v.relacl, acldefault('r', v.relowner))) as e
            union
            select
                case when e.grantee <> 0 then pg_get_userbyid(e.grantee) end,
                e.privilege_type, e.is_grantable, a.attname::text
            from pg_attribute as a
            cross join lateral aclexplode(a.attacl) as e
            where a.attrelid = v.oid and a.attnum > 0
        ) as g
    ) as grants
from pg_class as v
join pg_namespace as n on n.oid = v.relnamespace
where n.nspname = %(schema)s and v.relname = %(view)s and v.relkind = 'v'

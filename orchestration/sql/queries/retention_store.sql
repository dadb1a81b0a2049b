-- What the store is needed for: relations of versions and slots, and schemas of versions that are gone.
select
    clock_timestamp() as now,
    (
        select coalesce(jsonb_object_agg(m.version_id, m.relations), '{}')
        from (
            select version_id, jsonb_agg(relation_name) as relations from ops.version_models group by version_id
        ) as m
    ) as versions,
    (select coalesce(array_agg(distinct s.relation_name), '{}') from ops.slot_views as s) as slots,
    (
        select coalesce(array_agg(n.nspname::text), '{}') from pg_namespace as n
        where n.nspname ~ '^v_[0-9a-f]{16}$'
            and not exists (select from ops.versions as v where v.version_id = n.nspname)
    ) as schemas

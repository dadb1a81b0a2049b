-- The artifacts of a pipeline; how many bytes one takes is estimated from its share of the staging table.
select
    a.artifact_id, a.resource, a.window_name, a.revision, a.source_revision, a.state, a.created_at,
    a.acceptance = 'accepted' as accepted, a.emptied_at is not null as is_empty, coalesce(a.loaded, 0) as rows,
    coalesce((a.loaded * t.bytes_per_row)::bigint, 0) as bytes
from ops.artifacts as a
left join (
    select
        c.relname,
        pg_total_relation_size(c.oid) / nullif(greatest(c.reltuples, s.n_live_tup), 0) as bytes_per_row
    from pg_class as c
    join pg_namespace as n on n.oid = c.relnamespace
    left join pg_stat_all_tables as s on s.relid = c.oid
    where n.nspname = 'staging' and c.relkind = 'r'
) as t on t.relname = replace(a.resource, '.', '__')
where a.pipeline = %s

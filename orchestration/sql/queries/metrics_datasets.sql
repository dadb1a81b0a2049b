-- How old what was accepted last is, and how long the newest published window took to be published.
with windows as (
    select a.pipeline, a.resource, a.window_name, a.fetched_at,
        case when a.window_name ~ '^\d{4}-\d\d-\d\d$'
            then (a.window_name::date + 1)::timestamp at time zone 'UTC' end as window_end
    from ops.artifacts a
    where a.acceptance = 'accepted' and (%(pipeline)s::text is null or a.pipeline = %(pipeline)s)
), accepted as (
    select pipeline, resource, max(window_name) as newest, max(window_end) as window_end,
        max(fetched_at) as fetched_at
    from windows group by 1, 2
), published as (
    select p.pipeline, m.resource, max(m.window_name) as newest
    from ops.publication_pointer p
    join ops.versions v using (version_id)
    join ops.manifest_artifacts m using (manifest_id)
    group by 1, 2
), built_from as (
    select v.version_id, m.resource, m.window_name
    from ops.versions v
    join ops.manifest_artifacts m using (manifest_id)
    union
    select d.version_id, n.key, n.value
    from ops.dropped_versions d
    cross join lateral jsonb_each_text(d.newest) n
), first_published as (
    select n.pipeline, n.resource, n.newest, min(p.published_at) as published_at
    from published n
    join ops.publications p using (pipeline)
    join built_from b on b.version_id = p.version_id
        and b.resource = n.resource and b.window_name = n.newest
    group by 1, 2, 3
)
select a.pipeline, a.resource as dataset, a.newest as newest_accepted, f.newest as newest_published,
    extract(epoch from clock_timestamp() - a.window_end)::double precision as window_age_s,
    extract(epoch from clock_timestamp() - a.fetched_at)::double precision as fetched_age_s,
    case when f.newest ~ '^\d{4}-\d\d-\d\d$' then extract(
        epoch from f.published_at - (f.newest::date + 1)::timestamp at time zone 'UTC'
    )::double precision end as publication_lag_s
from accepted a
left join first_published f using (pipeline, resource)
order by 1, 2

-- What the version is built from, by resource, and the published models that show it.
with recursive reached as (
    select m.model as published, m.model, m.parents, m.resources
    from ops.version_models as m
    where m.version_id = %(version_id)s and m.published
    union
    select r.published, m.model, m.parents, m.resources
    from reached as r
    inner join ops.version_models as m
        on m.version_id = %(version_id)s and m.model = any(r.parents)
)

select
    e.resource,
    count(*) as artifacts,
    min(e.window_name) as first_window,
    max(e.window_name) as last_window,
    sum(a.loaded)::bigint as records,
    max(a.fetched_at) as newest_fetch,
    array(
        select distinct r.published from reached as r where e.resource = any(r.resources) order by 1
    ) as models
from ops.versions as v
inner join ops.manifest_artifacts as e on e.manifest_id = v.manifest_id
inner join ops.artifacts as a on a.artifact_id = e.artifact_id
where v.version_id = %(version_id)s
group by e.resource
order by e.resource

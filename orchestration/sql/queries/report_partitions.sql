-- What the run asked for, by resource and state, with record counts that reconcile.
select
    p.resource,
    p.state,
    count(*) as partitions,
    min(p.window_name) as first_window,
    max(p.window_name) as last_window,
    coalesce(sum(a.fetched), 0)::bigint as fetched,
    coalesce(sum(a.loaded), 0)::bigint as loaded,
    coalesce(sum(a.quarantined), 0)::bigint as quarantined
from ops.run_partitions as p
left join ops.artifacts as a on a.artifact_id = p.artifact_id
where p.run_id = %(run_id)s
group by p.resource, p.state
order by p.resource, p.state

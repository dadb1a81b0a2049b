-- Every revision of a window that was loaded, newest first: where it came from, and which one counts.
with counts as (
    select a.artifact_id
    from ops.artifacts as a
    where a.pipeline = %(pipeline)s
        and a.resource = %(resource)s
        and a.window_name = %(window)s
        and a.acceptance = 'accepted'
    order by a.source_revision desc, a.revision desc
    limit 1
)

select
    a.partition,
    case when a.origin_id is null then 'fetched' else 'retry of @' || a.origin_revision end as origin,
    a.fetched,
    a.loaded,
    a.quarantined,
    a.acceptance,
    a.acceptance_reason as reason,
    a.artifact_id in (select c.artifact_id from counts as c) as in_use,
    a.artifact_id,
    a.run_id,
    a.adopted_at
from ops.artifacts as a
where a.pipeline = %(pipeline)s
    and a.resource = %(resource)s
    and a.window_name = %(window)s
    and a.state = 'adopted'
order by a.source_revision desc, a.revision desc

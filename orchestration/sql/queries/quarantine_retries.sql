-- Revisions that are retries, each with the artifact whose rows it takes over: the one that it was
-- loaded from, or the newest of the same origin that is not rejected.
select
    t.retry_id,
    t.partition,
    t.status,
    b.artifact_id,
    b.fetched,
    b.loaded,
    b.schema_version,
    b.unexpected_fields,
    b.fetched_at
from quarantine.retries as t
left join lateral (
    select a.*
    from ops.artifacts as a
    where
        case
            when t.base_id is not null then a.artifact_id = t.base_id
            else a.artifact_id = t.origin_id or (a.origin_id = t.origin_id and a.acceptance <> 'rejected')
        end
        and a.state = 'adopted'
    order by a.revision desc
    limit 1
) as b on true
where t.pipeline = %s and t.partition = any(%s)

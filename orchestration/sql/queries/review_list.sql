-- What waits for a reviewer, the longest first: held versions, quarantined partitions that still count, runs
-- that failed and will not go on by themselves.
with waiting as (
    select
        'version' as kind,
        v.version_id as id,
        v.pipeline,
        null as resource,
        v.version_id as version,
        coalesce(b.run_id, v.run_id) as run_id,
        coalesce(b.what, 'its gate did not pass') as what,
        coalesce(b.seen_at, v.created_at) as since,
        null as owner,
        exists (
            select from ops.publications as p
            where p.pipeline = v.pipeline and p.published_at > v.created_at
        ) as is_overtaken
    from ops.versions as v
    left join lateral (
        select
            max(b.run_id) as run_id,
            min(b.seen_at) as seen_at,
            min(b.subject || ' ' || b.what) || case
                when count(*) > 1 then ' and ' || count(*) - 1 || ' more'
                else ''
            end as what
        from ops.breaches as b
        where b.version_id = v.version_id
        having count(*) > 0
    ) as b on true
    where v.state = 'held'
    union all
    select
        'partition',
        'partition-' || min(q.partition_id),
        q.pipeline,
        q.resource,
        null,
        max(q.run_id),
        q.partition || ': ' || min(q.rule) || case
            when count(*) > 1 then ' and ' || count(*) - 1 || ' more'
            else ''
        end,
        min(q.quarantined_at),
        null,
        false
    from quarantine.partitions as q
    inner join ops.artifacts as a on a.artifact_id = q.artifact_id
    where
        q.decision = 'held'
        and a.acceptance = 'rejected'
        and a.state = 'adopted'
        and not exists (
            select from ops.artifacts as later
            where later.pipeline = a.pipeline
                and later.resource = a.resource
                and later.window_name = a.window_name
                and later.state = 'adopted'
                and (later.source_revision, later.revision) > (a.source_revision, a.revision)
        )
    group by q.pipeline, q.resource, q.partition, q.artifact_id
    union all
    select
        'run',
        r.run_id,
        r.pipeline,
        null,
        r.version_id,
        r.run_id,
        (r.failure ->> 'stage') || ': ' || (r.failure ->> 'error_code'),
        r.finished_at,
        coalesce(s.owner, r.owner),
        false
    from ops.runs as r
    left join ops.run_stages as s on s.run_id = r.run_id and s.stage = r.failure ->> 'stage'
    where
        r.status = 'failed'
        and r.cause = 'permanent_error'
        and r.superseded_by is null
        and not exists (
            select from ops.runs as again
            where again.pipeline = r.pipeline
                and again.trigger_kind = r.trigger_kind
                and again.trigger_key = r.trigger_key
                and again.accepted_at > r.accepted_at
        )
)

select
    w.kind, w.id, w.pipeline, w.resource, w.version, w.run_id, w.what, w.since, w.owner, w.is_overtaken,
    extract(epoch from clock_timestamp() - w.since)::bigint as age_s
from waiting as w
where %(pipeline)s::text is null or w.pipeline = %(pipeline)s
order by w.since, w.id
limit %(limit)s

-- Records and partitions that broke a rule, newest first. `state` is the decision, or superseded where
-- there is none to make any more, because a later revision has come.
with entries as (
    select
        'record-' || r.record_id as id,
        r.pipeline,
        r.resource,
        r.partition,
        r.rule,
        r.field,
        r.error,
        r.decision,
        r.decided_by,
        r.source_ref,
        r.run_id,
        r.quarantined_at,
        r.artifact_id,
        case
            when r.decision = 'held'
                then quarantine.later_fetched(r.pipeline, r.resource, a.window_name, a.revision)
            else (select s.partition from ops.artifacts as s where s.artifact_id = r.superseded_by)
        end as superseded_by,
        (select t.partition from ops.artifacts as t where t.artifact_id = r.retried_into) as retried_into,
        r.record_id as number
    from quarantine.records as r
    join ops.artifacts as a using (artifact_id)
    union all
    select
        'partition-' || p.partition_id,
        p.pipeline,
        p.resource,
        p.partition,
        p.rule,
        null,
        p.error,
        p.decision,
        p.decided_by,
        null,
        p.run_id,
        p.quarantined_at,
        p.artifact_id,
        case
            when p.decision <> 'held' then null
            when a.acceptance = 'accepted' then p.partition
            else (
                select later.partition
                from ops.artifacts as later
                where later.pipeline = a.pipeline
                    and later.resource = a.resource
                    and later.window_name = a.window_name
                    and later.state = 'adopted'
                    and (later.source_revision, later.revision) > (a.source_revision, a.revision)
                order by later.source_revision desc, later.revision desc
                limit 1
            )
        end,
        null,
        p.partition_id
    from quarantine.partitions as p
    join ops.artifacts as a using (artifact_id)
),

states as (
    select
        e.*,
        case
            when e.decision = 'held' and e.superseded_by is not null then 'superseded'
            else e.decision
        end as state,
        extract(epoch from clock_timestamp() - e.quarantined_at)::bigint as age_s
    from entries as e
)

select
    s.id, s.pipeline, s.resource, s.partition, s.rule, s.field, s.error, s.state, s.decision,
    s.decided_by, s.retried_into, s.superseded_by, s.source_ref, s.run_id, s.quarantined_at, s.age_s
from states as s
where (%(pipeline)s::text is null or s.pipeline = %(pipeline)s)
    and (%(resource)s::text is null or s.resource = %(resource)s)
    and (%(rule)s::text is null or s.rule = %(rule)s)
    and (%(state)s::text is null or s.state = %(state)s)
    and (
        %(run)s::text is null
        or s.run_id = %(run)s
        or s.artifact_id in (select p.artifact_id from ops.run_partitions as p where p.run_id = %(run)s)
    )
order by s.quarantined_at desc, s.number desc, s.id
limit %(limit)s

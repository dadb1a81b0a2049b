-- Quarantined records and partitions of a pipeline, and when somebody decided on each.
select
    'record' as kind, q.record_id as number, q.artifact_id,
    case when q.decision <> 'held' then coalesce(q.decided_at, q.quarantined_at) end as decided_at
from quarantine.records as q
where q.pipeline = %(pipeline)s
union all
select
    'partition', q.partition_id, q.artifact_id,
    case when q.decision <> 'held' then coalesce(q.decided_at, q.quarantined_at) end
from quarantine.partitions as q
where q.pipeline = %(pipeline)s

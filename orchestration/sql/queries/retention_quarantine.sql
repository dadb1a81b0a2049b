-- Quarantined records and partitions of a pipeline, and when somebody decided on each, if what it holds
-- may be erased: not what was erased before, nor a correction by hand that is in force.
select
    'record' as kind, q.record_id as number, q.artifact_id,
    case
        when q.decision <> 'held' and q.erased_at is null
            and (not q.is_corrected or q.superseded_by is not null)
            then coalesce(q.decided_at, q.quarantined_at)
    end as decided_at
from quarantine.records as q
where q.pipeline = %(pipeline)s
union all
select 'partition', q.partition_id, q.artifact_id, null
from quarantine.partitions as q
where q.pipeline = %(pipeline)s

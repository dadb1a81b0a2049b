-- What the run kept out: partitions first, then the first hundred records; never a payload.
(
    select 'partition' as kind, q.partition_id as id, q.partition, q.rule, null as field, q.error,
        null as source_ref, q.decision, q.decided_by, q.decided_at, q.decision_reason
    from quarantine.partitions as q
    inner join ops.run_partitions as p on p.artifact_id = q.artifact_id
    where p.run_id = %(run_id)s
    order by q.partition_id
)
union all
(
    select 'record' as kind, q.record_id as id, q.partition, q.rule, q.field, q.error,
        q.source_ref, q.decision, q.decided_by, q.decided_at, q.decision_reason
    from quarantine.records as q
    inner join ops.run_partitions as p on p.artifact_id = q.artifact_id
    where p.run_id = %(run_id)s
    order by q.record_id
    limit 100
)

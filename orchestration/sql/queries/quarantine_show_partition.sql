-- One rule that a partition broke, with the partition's artifact.
select
    p.partition_id, p.pipeline, p.resource, a.window_name, p.partition, p.rule, p.error, p.decision,
    p.decided_by, p.decided_at, p.decision_reason, p.run_id, p.quarantined_at, p.artifact_id,
    a.acceptance, a.acceptance_reason, a.fetched, a.loaded, a.quarantined
from quarantine.partitions as p
join ops.artifacts as a using (artifact_id)
where p.partition_id = %s

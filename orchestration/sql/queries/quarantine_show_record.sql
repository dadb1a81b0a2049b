-- One quarantined record with its window and what came after it.
select
    r.record_id, r.pipeline, r.resource, a.window_name, r.partition, r.source_ref, r.rule, r.field,
    r.error, r.payload, r.altered, r.erased_at, r.correction, r.decision, r.decided_by, r.decided_at,
    r.decision_reason, r.run_id, r.quarantined_at, r.contract_version, r.artifact_id, r.superseded_how,
    (select t.partition from ops.artifacts as t where t.artifact_id = r.retried_into) as retried_into,
    (select s.partition from ops.artifacts as s where s.artifact_id = r.superseded_by) as superseded_by,
    quarantine.later_fetched(r.pipeline, r.resource, a.window_name, a.revision) as later_fetched,
    (
        select t.partition
        from quarantine.retry_records as m
        join quarantine.retries as t using (retry_id)
        where m.record_id = r.record_id and t.status = 'open'
    ) as retry_under_way
from quarantine.records as r
join ops.artifacts as a using (artifact_id)
where r.record_id = %s

-- Quarantined records by number, with what has come after them.
select
    r.record_id,
    r.pipeline,
    r.resource,
    a.window_name,
    r.partition,
    r.artifact_id,
    r.source_ref,
    r.rule,
    r.field,
    r.error,
    r.payload,
    r.altered,
    r.correction,
    r.decision,
    r.retried_into,
    r.superseded_by,
    (select t.partition from ops.artifacts as t where t.artifact_id = r.retried_into) as retried_as,
    u.partition as under_way,
    u.correction as correction_under_way,
    quarantine.later_fetched(r.pipeline, r.resource, a.window_name, a.revision) as later_fetched,
    quarantine.later_fetched(r.pipeline, r.resource, a.window_name, a.revision) is null as is_of_origin
from quarantine.records as r
join ops.artifacts as a using (artifact_id)
left join lateral (
    select t.partition, m.correction
    from quarantine.retry_records as m
    join quarantine.retries as t using (retry_id)
    left join ops.artifacts as o on o.artifact_id = t.artifact_id
    where m.record_id = r.record_id
        and (t.status = 'open' or (t.status = 'loaded' and o.acceptance = 'pending' and m.outcome = 'loaded'))
    order by t.revision desc
    limit 1
) as u on true
where r.record_id = any(%s)
order by r.record_id

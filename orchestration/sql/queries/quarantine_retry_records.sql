-- The records that a retry is about, as they are kept, with the corrections of that retry.
select
    r.record_id,
    r.source_ref,
    r.rule,
    r.field,
    r.error,
    r.payload,
    r.altered,
    m.correction,
    r.artifact_id = t.origin_id as is_of_origin
from quarantine.retries as t
join quarantine.retry_records as m using (retry_id)
join quarantine.records as r using (record_id)
where t.retry_id = %s
order by r.record_id

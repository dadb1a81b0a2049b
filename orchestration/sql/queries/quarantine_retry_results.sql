-- Where records stand after a retry, with the last word about those that are not loaded.
select
    'record-' || r.record_id as id,
    case
        when r.decision = 'retried' then 'loaded'
        when u.partition is not null then 'under way'
        else r.decision
    end as result,
    coalesce(t.partition, u.partition, r.partition) as partition,
    case
        when r.decision <> 'retried' then d.detail
        when t.source_revision = a.revision and not exists (
            select from quarantine.decisions as e
            where e.record_id = r.record_id and e.event = 'applied_again'
        )
            then quarantine.later_fetched(a.pipeline, a.resource, a.window_name, a.revision)
            || ' was fetched meanwhile, and counts'
    end as detail
from quarantine.records as r
join ops.artifacts as a using (artifact_id)
left join ops.artifacts as t on t.artifact_id = r.retried_into
left join lateral (
    select n.partition
    from quarantine.retry_records as m
    join quarantine.retries as n using (retry_id)
    where m.record_id = r.record_id and n.status = 'open'
    limit 1
) as u on true
left join lateral (
    select e.detail
    from quarantine.decisions as e
    where e.record_id = r.record_id and e.event in ('still_held', 'reopened')
    order by e.decision_id desc
    limit 1
) as d on true
where r.record_id = any(%s)
order by r.record_id

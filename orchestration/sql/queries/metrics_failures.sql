-- Attempts that did not succeed, by error; worker_lost is a worker that died or lost its lease.
select
    c.pipeline,
    c.stage,
    case when c.stage in ('extract', 'validate') then split_part(c.source_partition, '/', 1) else '' end
        as dataset,
    coalesce(a.error_code, 'worker_lost') as error_code,
    count(*) as failures,
    max(a.finished_at) as last_at
from ops.attempts a
join ops.checkpoints c using (idempotency_key)
where a.status in ('failed', 'lost') and (%(pipeline)s::text is null or c.pipeline = %(pipeline)s)
group by 1, 2, 3, 4
order by 1, 2, 3, 4

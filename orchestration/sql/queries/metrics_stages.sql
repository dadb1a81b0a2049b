-- Attempts at units, per pipeline, stage and dataset: how many, how often again, how long.
select
    c.pipeline,
    c.stage,
    case when c.stage in ('extract', 'validate') then split_part(c.source_partition, '/', 1) else '' end
        as dataset,
    count(*) as attempts,
    count(*) filter (where a.attempt > 1) as retries,
    count(*) filter (where a.status = 'succeeded') as succeeded,
    coalesce(sum(s.seconds) filter (where a.status = 'succeeded'), 0) as total_s,
    percentile_cont(0.5) within group (order by s.seconds) filter (where a.status = 'succeeded') as p50_s,
    percentile_cont(0.95) within group (order by s.seconds) filter (where a.status = 'succeeded') as p95_s,
    (array_agg(s.seconds order by a.finished_at desc) filter (where a.status = 'succeeded'))[1] as last_s
from ops.attempts a
join ops.checkpoints c using (idempotency_key),
    lateral (select extract(epoch from a.finished_at - a.started_at)::double precision as seconds) s
where c.step = '' and (%(pipeline)s::text is null or c.pipeline = %(pipeline)s)
group by 1, 2, 3
order by 1, array_position(
    array['initialize', 'extract', 'validate', 'transform', 'gate', 'publish', 'notify'], c.stage
), 3

-- Records and records per second of each run: extract and validate by dataset, transform as a whole.
with records as (
    select a.pipeline, c.stage, a.resource as dataset, t.run_id, sum(a.loaded) as records,
        extract(epoch from max(t.finished_at) - min(t.started_at))::double precision as seconds,
        max(t.finished_at) as finished_at
    from ops.artifacts a
    join ops.checkpoints c on c.output_ref = a.artifact_id and c.step = ''
    join ops.attempts t on t.idempotency_key = c.idempotency_key and t.attempt = c.attempt
    where a.state = 'adopted' and t.status = 'succeeded'
        and (c.stage = 'validate' or c.stage = 'extract' and t.run_id = a.run_id)
        and (%(pipeline)s::text is null or a.pipeline = %(pipeline)s)
    group by 1, 2, 3, 4
    union all
    select t.pipeline, 'transform', '', t.run_id, b.records, t.seconds, t.finished_at
    from (
        select c.pipeline, a.run_id, max(a.finished_at) as finished_at,
            sum(extract(epoch from a.finished_at - a.started_at))::double precision as seconds
        from ops.attempts a join ops.checkpoints c using (idempotency_key)
        where c.stage = 'transform' and a.status = 'succeeded'
            and (%(pipeline)s::text is null or c.pipeline = %(pipeline)s)
        group by 1, 2
    ) t
    join (
        select run_id, sum(row_count) as records from ops.relations
        where state = 'adopted' and kind = 'table' group by 1
    ) b using (run_id)
)
select pipeline, stage, dataset, sum(records)::bigint as records,
    percentile_cont(0.5) within group (order by records / nullif(seconds, 0)) as p50_per_s,
    (array_agg(records / nullif(seconds, 0) order by finished_at desc))[1]::double precision as last_per_s
from records
group by 1, 2, 3

-- The units of one stage of a run, those that stand in the way first, and what each left behind.
select
    c.idempotency_key,
    c.source_partition,
    c.status,
    c.attempt,
    c.input_ref,
    c.status in ('failed', 'running', 'invalidated')
        or c.result ->> 'accepted' = 'false' or c.output_ref = 'refused' as is_open,
    coalesce(
        c.output_ref,
        case c.stage
            when 'extract' then (
                select a.artifact_id from ops.artifacts a
                where a.pipeline = c.pipeline and a.partition = c.source_partition and a.state = 'adopted'
            )
            when 'transform' then (
                select v.version_id from ops.versions v
                where v.manifest_id = c.input_ref and v.run_id = r.run_id
                order by v.created_at desc limit 1
            )
            when 'publish' then (
                select 'publication/' || p.publication_id from ops.publications p
                where p.version_id = c.input_ref and p.run_id = r.run_id
                order by p.publication_id desc limit 1
            )
        end
    ) as output
from ops.runs r
join ops.checkpoints c on c.pipeline = r.pipeline
where r.run_id = %(run_id)s
    and c.stage = %(stage)s
    and c.step = ''
    and case when c.stage in ('extract', 'validate')
        then c.source_partition in (
            select p.resource || '/' || p.window_name || '@' || p.revision
            from ops.run_partitions p where p.run_id = r.run_id
        )
        else c.run_id = r.run_id or c.idempotency_key in (
            select s.idempotency_key from ops.run_stages s where s.run_id = r.run_id
        )
    end
order by
    is_open desc, array_position(array['failed', 'running', 'invalidated'], c.status) nulls last,
    c.started_at desc, c.source_partition

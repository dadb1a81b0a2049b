-- Finished units of these stages of a run, whoever finished them, are to be done again.
update ops.checkpoints as c
set status = 'invalidated'
from ops.runs r
where r.run_id = %(run_id)s
    and c.pipeline = r.pipeline
    and c.step = ''
    and c.status = 'succeeded'
    and c.stage = any(%(stages)s)
    and (
        c.run_id = r.run_id
        or exists (
            select from ops.run_stages s
            where s.run_id = r.run_id and s.idempotency_key = c.idempotency_key
        )
        or exists (
            select from ops.run_partitions p
            where p.run_id = r.run_id
                and c.stage in ('extract', 'validate')
                and c.source_partition = p.resource || '/' || p.window_name || '@' || p.revision
        )
    )

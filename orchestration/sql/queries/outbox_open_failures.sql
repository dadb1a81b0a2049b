-- Who was told that the pipeline failed or was held, since another run of it published last.
select o.owner, array_agg(distinct o.kind || ' in run ' || o.run_id order by o.kind || ' in run ' || o.run_id)
from ops.outbox o
where o.pipeline = %(pipeline)s
    and o.kind in ('failed', 'held')
    and o.payload ->> 'error_code' not in ('cancelled', 'superseded')
    and o.outbox_id > coalesce(
        (
            select max(p.outbox_id) from ops.outbox p
            where p.pipeline = %(pipeline)s and p.kind = 'published'
                and p.run_id is distinct from %(run_id)s
        ),
        0
    )
group by o.owner
order by o.owner

-- Messages of a pipeline that nobody has delivered: of one run, and of all that no living worker has in hand.
select o.outbox_id, o.kind, o.owner, o.dedup_key as key, o.payload, o.pipeline, o.run_id, c.correlation_id
from ops.outbox o
left join ops.runs c on c.run_id = o.run_id
where o.pipeline = %(pipeline)s
    and o.delivered_at is null
    and (
        o.run_id is not distinct from %(run_id)s
        or not exists (
            select from ops.runs r
            join ops.leases l on l.name = 'run/' || r.run_id and l.expires_at > clock_timestamp()
            where r.run_id = o.run_id and r.status in ('accepted', 'running')
        )
    )
order by o.outbox_id

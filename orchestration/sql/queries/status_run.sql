-- What the rows say about one run beside itself: its lease, a request to stop it, its last stage, its owner.
select
    l.holder,
    coalesce(l.expires_at > clock_timestamp(), false) as lease_is_alive,
    r.cause,
    r.superseded_by,
    r.recoveries,
    r.cancel_requested_at,
    r.cancel_requested_by,
    r.cancel_reason,
    s.stage,
    coalesce(s.owner, r.owner) as owner
from ops.runs r
left join ops.leases l on l.name = 'run/' || r.run_id
left join lateral (
    select s.stage, s.owner from ops.run_stages s
    where s.run_id = r.run_id
        and (s.stage = r.failure ->> 'stage' or r.failure ->> 'stage' is null and s.status in ('running', 'failed'))
    order by s.started_at desc limit 1
) s on true
where r.run_id = %s

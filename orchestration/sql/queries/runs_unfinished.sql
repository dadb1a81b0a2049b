-- Runs that have not ended, the oldest first, with whoever had their lease last.
select
    r.run_id,
    r.pipeline,
    r.trigger_kind || ' ' || r.trigger_key as trigger,
    r.status,
    (
        select s.stage from ops.run_stages s
        where s.run_id = r.run_id and s.status in ('running', 'failed')
        order by s.started_at desc limit 1
    ) as stage,
    r.accepted_at,
    r.recoveries,
    r.cancel_requested_at is not null as cancel_requested,
    l.holder,
    coalesce(l.expires_at > clock_timestamp(), false) as lease_is_alive
from ops.runs r
left join ops.leases l on l.name = 'run/' || r.run_id
where r.status in ('accepted', 'running')
    -- What the dispatcher has to hand over, or has just handed over, is not lost yet.
    and not exists (
        select from ops.run_starts p
        where p.run_id = r.run_id and r.status = 'accepted'
            and coalesce(p.started_at, 'infinity') > clock_timestamp() - interval '15 minutes'
    )
order by r.accepted_at, r.run_id

-- The oldest run of a pipeline that is no backfill and has a worker, or will have one within minutes.
select r.run_id
from ops.runs r
left join ops.leases l on l.name = 'run/' || r.run_id
left join ops.run_starts s on s.run_id = r.run_id
where r.pipeline = %s
    and r.trigger_kind <> 'backfill'
    and r.status in ('accepted', 'running')
    and (
        l.expires_at > clock_timestamp()
        or r.status = 'accepted'
            and coalesce(s.started_at, r.accepted_at) > clock_timestamp() - interval '15 minutes'
    )
order by r.accepted_at
limit 1

-- The stage that an unfinished run was in, if somebody asked for the run to be stopped.
select (
    select s.stage from ops.run_stages s
    where s.run_id = r.run_id and s.status in ('running', 'failed')
    order by s.started_at desc limit 1
)
from ops.runs r
where r.run_id = %s and r.status in ('accepted', 'running') and r.cancel_requested_at is not null

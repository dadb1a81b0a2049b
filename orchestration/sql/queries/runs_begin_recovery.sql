-- Counts a recovery of a run that has not ended; how many that makes, and the stage it was in.
update ops.runs as r
set recoveries = recoveries + 1
where r.run_id = %s and r.status in ('accepted', 'running')
returning r.recoveries, (
    select s.stage from ops.run_stages s
    where s.run_id = r.run_id and s.status in ('running', 'failed')
    order by s.started_at desc limit 1
)

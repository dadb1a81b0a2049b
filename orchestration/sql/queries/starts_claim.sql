-- The next accepted run that is to be handed to the platform; whoever claims it has two minutes.
update ops.run_starts s
set attempts = s.attempts + 1, next_at = clock_timestamp() + interval '2 minutes'
where s.run_id = (
    select c.run_id
    from ops.run_starts c
    join ops.runs r using (run_id)
    where c.started_at is null and c.next_at <= clock_timestamp() and r.status = 'accepted'
    order by r.accepted_at, c.run_id
    limit 1
    for update of c skip locked
)
returning s.run_id, s.attempts

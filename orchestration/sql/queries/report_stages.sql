-- The stages of a run with their durations in seconds.
select
    stage,
    status,
    attempts,
    output_ref,
    round(extract(epoch from coalesce(finished_at, now()) - started_at)::numeric, 2) as duration_s
from ops.run_stages
where run_id = %(run_id)s
order by position

-- Runs of any pipeline that are not over, or failed and may be resumed; when those ended.
select r.run_id, r.pipeline, r.finished_at as ended_at, o.run_id is not null as is_open
from ops.runs as r
left join ops.open_runs as o using (run_id)
where o.run_id is not null or (r.status in ('failed', 'cancelled') and r.superseded_by is null)

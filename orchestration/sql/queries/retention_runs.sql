-- The runs of a pipeline with the partitions that they asked for and the artifacts that they were told.
select
    r.run_id, r.accepted_at, coalesce(r.finished_at, r.accepted_at) as ended_at, r.version_id,
    exists (select from ops.open_runs as o where o.run_id = r.run_id) as is_open,
    r.status in ('failed', 'cancelled') and r.superseded_by is null as may_resume,
    coalesce(
        (
            select jsonb_agg(jsonb_build_array(p.resource, p.window_name, p.revision, p.artifact_id))
            from ops.run_partitions as p where p.run_id = r.run_id
        ),
        '[]'
    ) as partitions
from ops.runs as r
where r.pipeline = %s

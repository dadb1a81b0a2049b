-- The artifacts of a manifest.
select
    a.artifact_id, a.partition, a.resource, a.window_name, a.checksum, a.loaded as rows, a.run_id, a.fetched_at
from ops.manifest_artifacts as m
join ops.artifacts as a using (artifact_id)
where m.manifest_id = %s
order by a.resource, a.window_name

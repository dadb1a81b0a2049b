-- The versions that were built from any of these artifacts, the newest first.
select
    v.version_id, v.pipeline, v.state, p.version_id is not null as published, v.manifest_id, a.partition
from ops.manifest_artifacts as m
join ops.artifacts as a using (artifact_id)
join ops.versions as v using (manifest_id)
left join ops.publication_pointer as p on p.pipeline = v.pipeline and p.version_id = v.version_id
where m.artifact_id = any(%s)
order by v.created_at desc, v.version_id

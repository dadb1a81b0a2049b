-- The manifests of a pipeline with their artifacts.
select
    m.manifest_id, m.run_id,
    coalesce(
        (select array_agg(e.artifact_id) from ops.manifest_artifacts as e where e.manifest_id = m.manifest_id), '{}'
    ) as artifacts
from ops.manifests as m
where m.pipeline = %s

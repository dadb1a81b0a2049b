-- A version, and whether readers see it.
select
    v.version_id, v.pipeline, v.state, p.version_id is not null as published, v.manifest_id, v.run_id, v.code_id,
    v.code_commit as commit, v.code_dirty as dirty
from ops.versions as v
left join ops.publication_pointer as p on p.pipeline = v.pipeline and p.version_id = v.version_id
where v.version_id = %s

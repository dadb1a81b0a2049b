-- Versions by pipeline and the beginning of their id, the newest first.
select
    version_id, pipeline, manifest_id, run_id, code_id, code_commit, code_dirty, degraded, state,
    created_at, published_at
from ops.versions
where (%(pipeline)s::text is null or pipeline = %(pipeline)s)
    and starts_with(version_id, %(prefix)s)
order by created_at desc, version_id
limit %(limit)s

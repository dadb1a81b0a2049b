-- A candidate, unless this version is known already.
insert into ops.versions
    (version_id, pipeline, manifest_id, run_id, code_id, code_commit, code_dirty, degraded)
values
    (
        %(version_id)s, %(pipeline)s, %(manifest_id)s, %(run_id)s, %(code_id)s, %(code_commit)s,
        %(code_dirty)s, %(degraded)s
    )
on conflict do nothing
returning version_id

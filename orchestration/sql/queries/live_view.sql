-- One resource as one manifest has it: the session's, or else the published one that contains it.
-- An array keeps the index on the artifact id in use for any size of manifest; IN does not.
create or replace view {view} as
select {columns}
from {table} as t
where t._artifact_id = any(array(
    select m.artifact_id
    from ops.manifest_artifacts as m
    where
        m.resource = {resource}
        and m.manifest_id = coalesce(
            nullif(current_setting('sluice.manifest', true), ''),
            (
                select v.manifest_id
                from ops.publication_pointer as p
                inner join ops.versions as v on p.version_id = v.version_id
                where exists (
                    select from ops.manifest_artifacts as held
                    where held.manifest_id = v.manifest_id and held.resource = {resource}
                )
                order by p.pipeline
                limit 1
            )
        )
))

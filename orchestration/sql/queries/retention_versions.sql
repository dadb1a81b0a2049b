-- The versions of a pipeline with their latest publication, whether they are pinned, and their relations.
select
    v.version_id, v.pipeline, v.state, v.manifest_id, v.run_id, v.created_at,
    (select max(p.publication_id) from ops.publications as p where p.version_id = v.version_id) as publication,
    exists (select from ops.version_pins as p where p.version_id = v.version_id) as pinned,
    to_regnamespace(v.version_id) is not null as has_schema,
    coalesce(
        (select array_agg(m.relation_name) from ops.version_models as m where m.version_id = v.version_id), '{}'
    ) as relations
from ops.versions as v
where v.pipeline = %s

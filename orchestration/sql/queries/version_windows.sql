-- What a version was built from of one resource that is loaded by window: window, and its content.
select
    m.window_name,
    coalesce(a.loaded, 0) || ':' || coalesce(a.checksum, '') as content
from ops.versions as v
inner join ops.manifest_artifacts as m on m.manifest_id = v.manifest_id
inner join ops.artifacts as a on a.artifact_id = m.artifact_id
where
    v.version_id = %(version_id)s
    and m.resource = %(resource)s
    and m.window_name <> %(snapshot)s

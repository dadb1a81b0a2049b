-- What the published version is made of, by content: resource, window, records, checksum.
select m.resource, m.window_name, a.loaded, a.checksum
from ops.publication_pointer as p
inner join ops.versions as v on v.version_id = p.version_id
inner join ops.manifest_artifacts as m on m.manifest_id = v.manifest_id
inner join ops.artifacts as a on a.artifact_id = m.artifact_id
where p.pipeline = %s

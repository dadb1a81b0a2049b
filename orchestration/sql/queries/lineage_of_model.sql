-- For every pipeline with this model the version that readers see, or else the newest one that has it.
select distinct on (v.pipeline) v.version_id
from ops.version_models as m
join ops.versions as v using (version_id)
left join ops.publication_pointer as p on p.pipeline = v.pipeline and p.version_id = v.version_id
where m.model = %s
order by v.pipeline, p.version_id is null, v.created_at desc

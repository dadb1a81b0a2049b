-- The models of a version: what each reads itself, and whether readers have a view of it now.
select
    m.model, m.relation_name as relation, m.published, r.kind, r.row_count as rows, m.parents, m.resources,
    m.published and s.model is not null as is_shown
from ops.version_models as m
join ops.versions as v using (version_id)
join ops.relations as r using (relation_name)
left join ops.published_models as s on s.model = m.model and s.pipeline = v.pipeline
where m.version_id = %(version_id)s
order by m.model

-- The models of a version with the resources that each is made of, directly or through its parents.
with recursive needs as (
    select m.model as top, m.model, m.parents, m.resources
    from ops.version_models as m
    where m.version_id = %(version_id)s
    union
    select n.top, p.model, p.parents, p.resources
    from needs as n
    join ops.version_models as p on p.version_id = %(version_id)s and p.model = any(n.parents)
)

select
    m.model, m.relation_name as relation, m.published, r.kind, r.row_count as rows, m.parents,
    array(
        select distinct resource from needs as n, unnest(n.resources) as resource where n.top = m.model
        order by resource
    ) as resources
from ops.version_models as m
join ops.relations as r using (relation_name)
where m.version_id = %(version_id)s
order by m.model

-- Every model of the published versions, this pipeline's last: where it is kept, and whether schema
-- deferred shows it with its partitions.
select
    m.model,
    m.relation_name,
    m.published,
    m.published and to_regclass(format('deferred.%%I', m.model)) is not null as has_deferred
from ops.publication_pointer as p
inner join ops.version_models as m using (version_id)
order by m.published, p.pipeline = %(pipeline)s, m.model

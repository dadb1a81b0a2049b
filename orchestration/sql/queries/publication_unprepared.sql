-- Published models of a version that a slot was not pointed at; asked while the pointer is locked.
select m.model
from ops.version_models as m
left join ops.slot_views as s
    on s.slot = %(slot)s and s.model = m.model and s.pipeline = %(pipeline)s
where m.version_id = %(version_id)s
    and m.published
    and s.relation_name is distinct from m.relation_name

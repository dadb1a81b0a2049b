-- The version that begins like this and that retention dropped, the last one that it dropped.
select d.version_id, d.pipeline, d.state, d.dropped_at
from ops.dropped_versions as d
where starts_with(d.version_id, %(prefix)s)
    and (%(pipeline)s::text is null or d.pipeline = %(pipeline)s)
    and not exists (select from ops.versions as v where v.version_id = d.version_id)
order by d.dropped_at desc
limit 1

-- Which of these partitions of a model the published version shows.
select p.partition
from ops.versions as v
inner join ops.version_models as m on m.version_id = v.version_id
inner join ops.view_segments as s on s.view_name = m.relation_name
inner join ops.segment_partitions as p on p.relation_name = s.segment_name
where
    v.pipeline = %(pipeline)s
    and v.state = 'published'
    and m.model = %(model)s
    and p.partition = any(%(partitions)s)
    and p.partition <> all(s.hidden)

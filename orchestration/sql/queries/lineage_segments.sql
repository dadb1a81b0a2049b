-- The partitions that the partitioned models of a version show, and the segment in which each lies.
select m.model, s.segment_name as segment, p.partition, p.row_count as rows
from ops.version_models as m
join ops.view_segments as s on s.view_name = m.relation_name
join ops.segment_partitions as p on p.relation_name = s.segment_name and p.partition <> all (s.hidden)
where m.version_id = %(version_id)s
order by m.model, s.segment_name, p.partition

-- The partitions that the view of a partitioned model shows, and in which segment each lies.
select
    p.partition,
    s.segment_name,
    p.partition_key,
    p.row_count
from ops.view_segments as s
inner join ops.segment_partitions as p on p.relation_name = s.segment_name
where s.view_name = %(relation_name)s and p.partition <> all(s.hidden)
order by p.partition

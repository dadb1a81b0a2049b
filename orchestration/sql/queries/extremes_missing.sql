-- Partitions that a view shows and whose extremes of a column were never recorded.
select p.partition
from ops.view_segments as s
inner join ops.segment_partitions as p on p.relation_name = s.segment_name
where
    s.view_name = %(relation_name)s
    and p.partition <> all(s.hidden)
    and not exists (
        select from ops.partition_extremes as e
        where e.partition_key = p.partition_key and e.column_name = %(column_name)s
    )

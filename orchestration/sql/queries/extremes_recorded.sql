-- The recorded extremes of a column in each partition that a view shows, two rows for each.
select cast(unnest(array[e.least, e.greatest]) as {type}) as {column}
from ops.view_segments as s
inner join ops.segment_partitions as p on p.relation_name = s.segment_name
inner join ops.partition_extremes as e on e.partition_key = p.partition_key
where
    s.view_name = {relation}
    and e.column_name = {name}
    and p.partition <> all(s.hidden)

-- Adopted segments that hold one of these partition keys, with everything they hold.
select
    p.relation_name,
    jsonb_object_agg(p.partition, p.partition_key) as keys,
    jsonb_object_agg(p.partition, p.row_count) as counts
from ops.segment_partitions as p
inner join ops.relations as r on r.relation_name = p.relation_name
where
    r.state = 'adopted'
    and p.relation_name in (
        select held.relation_name
        from ops.segment_partitions as held
        where held.partition_key = any(%(keys)s)
    )
group by p.relation_name
order by p.relation_name

-- Adopted segments that hold one of these partition keys, with everything they hold.
with wanted as materialized (
    select partition_key from unnest(string_to_array(%(keys)s, ' ')) as k (partition_key)
)

select
    p.relation_name,
    array_agg(p.partition) as partitions,
    array_agg(p.partition_key) as keys,
    array_agg(p.row_count) as counts
from ops.segment_partitions as p
inner join ops.relations as r on r.relation_name = p.relation_name
where
    r.state = 'adopted'
    and p.relation_name in (
        select held.relation_name
        from ops.segment_partitions as held
        inner join wanted on wanted.partition_key = held.partition_key
    )
group by p.relation_name
order by p.relation_name

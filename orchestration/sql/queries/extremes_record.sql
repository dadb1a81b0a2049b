-- Reads a column of some partitions once; what is known of a partition never changes.
insert into ops.partition_extremes (partition_key, column_name, least, greatest)
select
    wanted.partition_key,
    {name},
    read.least,
    read.greatest
from unnest(%(partitions)s::text[], %(keys)s::text[]) as wanted (partition, partition_key)
left join (
    select
        {partition} as partition,
        min({column})::text as least,
        max({column})::text as greatest
    from ({rows}) as shown
    group by 1
) as read on wanted.partition = read.partition
on conflict do nothing

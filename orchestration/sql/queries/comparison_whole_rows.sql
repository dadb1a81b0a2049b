-- Rows of two sides as multisets: what one side has more often than the other, in all and by partition.
with {prelude},
surplus as (
    select grouping(_partition) = 1 as is_total, _partition, sum(n) as n
    from (
        select {columns}, _partition, 1 as n from after_rows
        union all
        select {columns}, _partition, -1 as n from before_rows
    ) as u
    group by grouping sets (({columns}), ({columns}, _partition))
    having sum(n) <> 0
),
counted as (
    select
        is_total,
        _partition,
        coalesce(sum(n) filter (where n > 0), 0)::bigint as added,
        coalesce(-sum(n) filter (where n < 0), 0)::bigint as removed
    from surplus
    group by is_total, _partition
)
select
    (select coalesce(jsonb_agg(to_jsonb(c)), '[]') from counted as c),
    {duplicate_keys}

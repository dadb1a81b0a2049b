-- Rows of two sides matched by key: what only one side has, what differs, and a few examples of each.
-- Examples are looked up again by key, so that the matched rows need not be kept with all they hold.
with {prelude},
differing as materialized (
    select
        case when b._there is null then 'added' when a._there is null then 'removed' else 'changed' end
            as _kind,
        coalesce(a._partition, b._partition) as _partition,
        {keys}{flags}
    from before_rows as b
    full join after_rows as a on {same_key}
    where b._there is null or a._there is null or {differs}
),
counted as (
    select
        grouping(_partition) = 1 as is_total,
        _partition,
        count(*) filter (where _kind = 'added') as added,
        count(*) filter (where _kind = 'removed') as removed,
        count(*) filter (where _kind = 'changed') as changed,
        {changed} as columns
    from differing
    group by grouping sets ((), (_partition))
),
picked as (
    {picked}
)
select
    (select coalesce(jsonb_agg(to_jsonb(c)), '[]') from counted as c),
    (
        select
            coalesce(
                jsonb_agg(
                    jsonb_build_object(
                        'what', p.what, 'key', {shown_key},
                        'before', {value_before}, 'after', {value_after}
                    )
                    order by p.what, {order}
                ),
                '[]'
            )
        from picked as p
        left join before_rows as b on {picked_before}
        left join after_rows as a on {picked_after}
    )

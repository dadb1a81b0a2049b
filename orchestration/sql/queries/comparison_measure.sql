-- One side of a comparison: its rows, how many keys several of them share, whether a key holds a null.
select
    coalesce(sum(held), 0)::bigint,
    count(*) filter (where held > 1),
    coalesce(bool_or({any_null}), false)
from (
    select {keys}, count(*) as held
    from ({rows}) as r
    group by {keys}
) as g

-- How many rows a partition of a query has, and sums that do not depend on the order of its rows. Each
-- number is weighted by the row that it stands in, so that it counts where it stands.
select count(*), sum(cast(hash as numeric)){sums}
from (
    select *, 1 + (hash & 1023) as weight
    from (
        select hashtextextended(cast(row({exact}) as text), 0) as hash{numbers}
        from (
{code}
        ) as built
        where built.{partition_column} = {partition}
    ) as hashed
) as made

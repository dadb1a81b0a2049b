-- Both sides, split: the rows whose key several rows of a side have, or all others.
all_before as not materialized ({before}),
all_after as not materialized ({after}),
ambiguous as materialized (
    select {keys} from all_before group by {keys} having count(*) > 1
    union
    select {keys} from all_after group by {keys} having count(*) > 1
),
before_rows as not materialized (
    select r.* from all_before as r where {having} exists (select from ambiguous as k where {same_key})
),
after_rows as not materialized (
    select r.* from all_after as r where {having} exists (select from ambiguous as k where {same_key})
)

{{ config(partition_by='_partition', lookback=6) }}

select
    airport_code,
    observed_on,
    sum(observations) over week as observations,
    _partition
from {{ ref('agg_daily') }}
window week as (
    partition by airport_code order by observed_on range between interval '6 days' preceding and current row
)

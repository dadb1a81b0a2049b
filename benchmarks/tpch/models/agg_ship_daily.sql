{{ config(partition_by='_partition') }}

select
    ship_date,
    return_flag,
    line_status,
    count(*) as lines,
    sum(quantity) as quantity,
    sum(extended_price * (1 - discount)) as revenue,
    _partition
from {{ ref('fct_lineitem') }}
group by ship_date, return_flag, line_status, _partition

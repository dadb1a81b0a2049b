{{ config(partition_by='_partition') }}

select
    airport_code,
    cast(observed_at as date) as observed_on,
    count(*) as observations,
    max(temperature) as warmest,
    _partition
from {{ ref('fct_weather') }}
group by airport_code, cast(observed_at as date), _partition

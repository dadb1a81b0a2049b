{{ config(materialized='view') }}

select
    cast(origin as text) as airport_code,
    cast(time_hour as timestamptz) as observed_at,
    cast(temp as double precision) as temperature,
    cast(_partition as text) as _partition
from {{ source('flights', 'weather') }}

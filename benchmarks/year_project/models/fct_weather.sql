{{ config(partition_by='_partition', indexes=[{'columns': ['observed_at']}]) }}

select airport_code, observed_at, temperature, _partition
from {{ ref('stg_weather') }}

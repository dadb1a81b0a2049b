{{ config(partition_by='_partition', indexes=[{'columns': ['order_key']}]) }}

select
    cast(o_orderkey as bigint) as order_key,
    cast(o_custkey as bigint) as customer_key,
    cast(o_orderstatus as text) as order_status,
    cast(o_totalprice as numeric(12, 2)) as total_price,
    cast(o_orderdate as date) as order_date,
    cast(_partition as text) as _partition
from {{ source('tpch', 'orders') }}

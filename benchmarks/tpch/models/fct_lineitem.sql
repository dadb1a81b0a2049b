{{ config(partition_by='_partition', indexes=[{'columns': ['order_key']}]) }}

select
    cast(l_orderkey as bigint) as order_key,
    cast(l_linenumber as integer) as line_number,
    cast(l_partkey as bigint) as part_key,
    cast(l_suppkey as bigint) as supplier_key,
    cast(l_quantity as numeric(12, 2)) as quantity,
    cast(l_extendedprice as numeric(12, 2)) as extended_price,
    cast(l_discount as numeric(12, 2)) as discount,
    cast(l_tax as numeric(12, 2)) as tax,
    cast(l_returnflag as text) as return_flag,
    cast(l_linestatus as text) as line_status,
    cast(l_shipdate as date) as ship_date,
    cast(_partition as text) as _partition
from {{ source('tpch', 'lineitem') }}

with

source as (
    select * from {{ source('flights', 'airlines') }}
),

final as (
    select
        cast(carrier as text) as carrier_code,
        cast(name as text) as carrier_name
    from source
)

select * from final

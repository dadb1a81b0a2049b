with

airlines as (
    select * from {{ ref('stg_flights__airlines') }}
),

final as (
    select
        carrier_code,
        carrier_name
    from airlines
)

select * from final

with

airports as (
    select * from {{ ref('stg_flights__airports') }}
),

final as (
    select
        airport_code,
        airport_name,
        latitude,
        longitude,
        altitude_feet,
        time_zone
    from airports
)

select * from final

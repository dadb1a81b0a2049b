with

observations as (

    select * from {{ ref('stg_flights__weather') }}

),

final as (

    select
        origin_airport_code,
        cast(timezone('America/New_York', observed_at) as date) as weather_date,
        count(*) as observations,
        max(wind_speed_mph) as highest_wind_speed_mph
    from observations
    group by 1, 2

)

select * from final

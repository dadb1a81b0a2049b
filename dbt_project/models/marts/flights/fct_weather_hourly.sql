{{ config(
    partition_by='_partition', indexes=[{'columns': ['origin_airport_code', 'observed_at']}]
) }}

with

weather as (
    select * from {{ ref('stg_flights__weather') }}
),

final as (
    select
        origin_airport_code,
        observed_at,
        temperature_f,
        dew_point_f,
        humidity_percent,
        wind_direction_degrees,
        wind_speed_mph,
        wind_gust_mph,
        precipitation_inches,
        pressure_millibars,
        visibility_miles,
        _partition
    from weather
)

select * from final

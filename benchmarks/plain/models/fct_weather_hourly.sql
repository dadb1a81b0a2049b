{{ config(
    materialized='incremental', incremental_strategy='delete+insert', on_schema_change='fail',
    unique_key=['origin_airport_code', 'observed_at']
) }}

with

weather as (
    select * from {{ ref('stg_flights__weather') }}
    {% if is_incremental() %}
        where observed_at >= (select date_trunc('day', max(observed_at)) from {{ this }})
    {% endif %}
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
        visibility_miles
    from weather
)

select * from final

with

source as (
    select * from {{ source('flights', 'weather') }}
),

final as (
    select
        cast(origin as text) as origin_airport_code,
        cast(time_hour as timestamptz) as observed_at,
        cast(temp as double precision) as temperature_f,
        cast(dewp as double precision) as dew_point_f,
        cast(humid as double precision) as humidity_percent,
        cast(wind_dir as double precision) as wind_direction_degrees,
        cast(wind_speed as double precision) as wind_speed_mph,
        cast(wind_gust as double precision) as wind_gust_mph,
        cast(precip as double precision) as precipitation_inches,
        cast(pressure as double precision) as pressure_millibars,
        cast(visib as double precision) as visibility_miles,
        cast(_partition as text) as _partition
    from source
)

select * from final

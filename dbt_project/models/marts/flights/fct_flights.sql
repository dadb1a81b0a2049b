{{ config(
    partition_by='_partition',
    indexes=[{'columns': ['flight_key']}, {'columns': ['flight_date', 'carrier_code']}],
) }}

with

flights as (
    select * from {{ ref('stg_flights__flights') }}
),

final as (
    select
        -- to_char, since the text of a date depends on the session's DateStyle.
        md5(
            to_char(flight_date, 'YYYY-MM-DD')
            || '|' || carrier_code
            || '|' || cast(flight_number as text)
            || '|' || origin_airport_code
        ) as flight_key,
        flight_date,
        carrier_code,
        flight_number,
        tail_number,
        origin_airport_code,
        destination_airport_code,
        -- From the UTC hour: a local time is ambiguous in the hour that occurs twice.
        scheduled_departure_hour_at + make_interval(mins => scheduled_departure_minute)
            as scheduled_departure_at,
        departure_delay_minutes,
        arrival_delay_minutes,
        air_time_minutes,
        distance_miles,
        departure_clock is null as is_cancelled,
        _partition
    from flights
)

select * from final

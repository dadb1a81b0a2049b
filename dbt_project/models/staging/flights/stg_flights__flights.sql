with

source as (
    select * from {{ source('flights', 'flights') }}
),

final as (
    select
        make_date(cast(year as integer), cast(month as integer), cast(day as integer))
            as flight_date,
        cast(carrier as text) as carrier_code,
        cast(flight as integer) as flight_number,
        cast(tailnum as text) as tail_number,
        cast(origin as text) as origin_airport_code,
        cast(dest as text) as destination_airport_code,
        cast(time_hour as timestamptz) as scheduled_departure_hour_at,
        cast(minute as integer) as scheduled_departure_minute,
        cast(sched_dep_time as integer) as scheduled_departure_clock,
        cast(dep_time as integer) as departure_clock,
        cast(sched_arr_time as integer) as scheduled_arrival_clock,
        cast(arr_time as integer) as arrival_clock,
        cast(dep_delay as integer) as departure_delay_minutes,
        cast(arr_delay as integer) as arrival_delay_minutes,
        cast(air_time as integer) as air_time_minutes,
        cast(distance as integer) as distance_miles,
        cast(_partition as text) as _partition
    from source
)

select * from final

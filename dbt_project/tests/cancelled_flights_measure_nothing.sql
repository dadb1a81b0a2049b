-- A flight that never left has no delay and no air time; one that left has a departure delay; air
-- time and arrival delay are known together.
{{ config(meta={'scope': 'changed'}) }}

with

flights as (
    select * from {{ ref('fct_flights') }}
),

final as (
    select
        flight_key,
        departure_delay_minutes,
        arrival_delay_minutes,
        air_time_minutes,
        is_cancelled
    from flights
    where
        (
            is_cancelled
            and num_nonnulls(departure_delay_minutes, arrival_delay_minutes, air_time_minutes) > 0
        )
        or (not is_cancelled and departure_delay_minutes is null)
        or (arrival_delay_minutes is null) <> (air_time_minutes is null)
)

select * from final

-- Scheduled departure plus delay is the clock at which the flight left. Only a warning: when it
-- fails, the source contradicts itself, and no number of ours is wrong.
{{ config(severity='warn', meta={'scope': 'changed'}) }}

with

marts as (
    select * from {{ ref('fct_flights') }}
),

staged as (
    select * from {{ ref('stg_flights__flights') }}
),

departures as (
    select
        marts.flight_key,
        marts.departure_delay_minutes,
        staged.departure_clock,
        marts.scheduled_departure_at
        + make_interval(mins => marts.departure_delay_minutes) as departed_at
    from marts
    inner join staged
        on
            marts.flight_date = staged.flight_date
            and marts.carrier_code = staged.carrier_code
            and marts.flight_number = staged.flight_number
            and marts.origin_airport_code = staged.origin_airport_code
    where not marts.is_cancelled
),

final as (
    select
        flight_key,
        departure_delay_minutes,
        departure_clock,
        departed_at
    from departures
    where {{ local_clock('departed_at') }} <> departure_clock % 2400
)

select * from final

-- The instant is computed from the UTC hour; the source also states the local date and clock, and
-- they agree.
{{ config(meta={'scope': 'changed'}) }}

with

marts as (
    select * from {{ ref('fct_flights') }}
),

staged as (
    select * from {{ ref('stg_flights__flights') }}
),

final as (
    select
        marts.flight_key,
        marts.scheduled_departure_at,
        staged.scheduled_departure_clock
    from marts
    inner join staged
        on
            marts.flight_date = staged.flight_date
            and marts.carrier_code = staged.carrier_code
            and marts.flight_number = staged.flight_number
            and marts.origin_airport_code = staged.origin_airport_code
    where
        cast(marts.scheduled_departure_at at time zone 'America/New_York' as date)
        <> marts.flight_date
        or {{ local_clock('marts.scheduled_departure_at') }} <> staged.scheduled_departure_clock
)

select * from final

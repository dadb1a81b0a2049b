-- Each carrier's day counts exactly its flights and its cancellations, in both directions, whether
-- or not the carrier has a name.
{{ config(meta={'scope': 'changed'}) }}

with

flights as (
    select * from {{ ref('fct_flights') }}
),

carrier_days as (
    select * from {{ ref('agg_carrier_daily') }}
),

counted as (
    select
        flight_date,
        carrier_code,
        count(*) as flights,
        count(*) filter (where is_cancelled) as cancelled_flights
    from flights
    group by flight_date, carrier_code
),

final as (
    select
        coalesce(counted.flight_date, carrier_days.flight_date) as flight_date,
        coalesce(counted.carrier_code, carrier_days.carrier_code) as carrier_code,
        counted.flights as counted_flights,
        carrier_days.flights as stated_flights
    from counted
    full outer join carrier_days
        on
            counted.flight_date = carrier_days.flight_date
            and counted.carrier_code = carrier_days.carrier_code
    where
        counted.flights is distinct from carrier_days.flights
        or counted.cancelled_flights is distinct from carrier_days.cancelled_flights
)

select * from final

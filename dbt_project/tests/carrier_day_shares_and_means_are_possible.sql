-- A share lies between 0 and 1 and exists exactly when a mean arrival delay does; a day has a mean
-- departure delay unless every flight was cancelled; a mean lies between its flights' extremes.
{{ config(meta={'scope': 'changed'}) }}

with

flights as (
    select * from {{ ref('fct_flights') }}
),

carrier_days as (
    select * from {{ ref('agg_carrier_daily') }}
),

extremes as (
    select
        flight_date,
        carrier_code,
        min(departure_delay_minutes) as least_departure_delay,
        max(departure_delay_minutes) as greatest_departure_delay,
        min(arrival_delay_minutes) as least_arrival_delay,
        max(arrival_delay_minutes) as greatest_arrival_delay
    from flights
    group by flight_date, carrier_code
),

final as (
    select
        carrier_days.flight_date,
        carrier_days.carrier_code,
        carrier_days.mean_departure_delay_minutes,
        carrier_days.mean_arrival_delay_minutes,
        carrier_days.on_time_share
    from carrier_days
    inner join extremes
        on
            carrier_days.flight_date = extremes.flight_date
            and carrier_days.carrier_code = extremes.carrier_code
    where
        carrier_days.on_time_share not between 0 and 1
        or (carrier_days.on_time_share is null)
        <> (carrier_days.mean_arrival_delay_minutes is null)
        or (carrier_days.flights = carrier_days.cancelled_flights)
        <> (carrier_days.mean_departure_delay_minutes is null)
        or carrier_days.mean_departure_delay_minutes
        not between extremes.least_departure_delay and extremes.greatest_departure_delay
        or carrier_days.mean_arrival_delay_minutes
        not between extremes.least_arrival_delay and extremes.greatest_arrival_delay
)

select * from final

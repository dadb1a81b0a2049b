{{ config(
    materialized='incremental', incremental_strategy='delete+insert', on_schema_change='fail',
    unique_key='flight_date'
) }}

with

flights as (
    select * from {{ ref('fct_flights') }}
    {% if is_incremental() %}
        where flight_date >= (select max(flight_date) from {{ this }})
    {% endif %}
),

carriers as (
    select * from {{ ref('dim_carrier') }}
),

carrier_days as (
    select
        flight_date,
        carrier_code,
        count(*) as flights,
        count(*) filter (where is_cancelled) as cancelled_flights,
        count(arrival_delay_minutes) as arrived_flights,
        count(*) filter (where arrival_delay_minutes <= 15) as on_time_flights,
        -- Averages of integers are exact; only the result is rounded to a double.
        cast(avg(departure_delay_minutes) as double precision) as mean_departure_delay_minutes,
        cast(avg(arrival_delay_minutes) as double precision) as mean_arrival_delay_minutes
    from flights
    group by flight_date, carrier_code
),

final as (
    select
        carrier_days.flight_date,
        carrier_days.carrier_code,
        carriers.carrier_name,
        carrier_days.flights,
        carrier_days.cancelled_flights,
        carrier_days.mean_departure_delay_minutes,
        carrier_days.mean_arrival_delay_minutes,
        cast(carrier_days.on_time_flights as double precision)
        / nullif(carrier_days.arrived_flights, 0) as on_time_share
    from carrier_days
    left join carriers on carrier_days.carrier_code = carriers.carrier_code
)

select * from final

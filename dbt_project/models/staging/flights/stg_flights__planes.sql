with

source as (
    select * from {{ source('flights', 'planes') }}
),

final as (
    select
        cast(tailnum as text) as tail_number,
        cast(year as integer) as manufactured_year,
        cast(type as text) as type,
        cast(manufacturer as text) as manufacturer,
        cast(model as text) as model,
        cast(engines as integer) as engines,
        cast(seats as integer) as seats,
        cast(speed as integer) as cruising_speed_mph,
        cast(engine as text) as engine_type
    from source
)

select * from final

with

planes as (
    select * from {{ ref('stg_flights__planes') }}
),

final as (
    select
        tail_number,
        manufactured_year,
        type,
        manufacturer,
        model,
        engines,
        seats
    from planes
)

select * from final

with

source as (
    select * from {{ source('flights', 'airports') }}
),

final as (
    select
        cast(faa as text) as airport_code,
        cast(name as text) as airport_name,
        cast(lat as double precision) as latitude,
        cast(lon as double precision) as longitude,
        cast(alt as integer) as altitude_feet,
        cast(tz as integer) as utc_offset_hours,
        cast(dst as text) as daylight_saving_rule,
        cast(tzone as text) as time_zone
    from source
)

select * from final

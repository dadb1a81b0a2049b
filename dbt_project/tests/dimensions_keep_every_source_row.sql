-- No join or filter on the way to a dimension loses a row of the source or makes one up.
with

row_counts as (
    {% for staged, mart in [
        ('stg_flights__airlines', 'dim_carrier'),
        ('stg_flights__airports', 'dim_airport'),
        ('stg_flights__planes', 'dim_plane'),
    ] %}
        select
            '{{ mart }}' as mart,
            (select count(*) from {{ ref(staged) }}) as source_rows,
            (select count(*) from {{ ref(mart) }}) as mart_rows
        {% if not loop.last %}union all{% endif %}
    {% endfor %}
),

final as (
    select
        mart,
        source_rows,
        mart_rows
    from row_counts
    where source_rows <> mart_rows
)

select * from final

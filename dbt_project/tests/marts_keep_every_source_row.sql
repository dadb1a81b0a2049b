-- No join or filter on the way to a fact loses a row of the source or makes one up, whatever the
-- partition.
{{ config(meta={'scope': 'changed'}) }}

with

counted as (
    {% for staged, mart in [
        ('stg_flights__flights', 'fct_flights'),
        ('stg_flights__weather', 'fct_weather_hourly'),
    ] %}
        select
            '{{ mart }}' as mart,
            _partition,
            count(*) as source_rows,
            0 as mart_rows
        from {{ ref(staged) }}
        group by _partition
        union all
        select
            '{{ mart }}' as mart,
            _partition,
            0 as source_rows,
            count(*) as mart_rows
        from {{ ref(mart) }}
        group by _partition
        {% if not loop.last %}union all{% endif %}
    {% endfor %}
),

final as (
    select
        mart,
        _partition,
        sum(source_rows) as source_rows,
        sum(mart_rows) as mart_rows
    from counted
    group by mart, _partition
    having sum(source_rows) <> sum(mart_rows)
)

select * from final

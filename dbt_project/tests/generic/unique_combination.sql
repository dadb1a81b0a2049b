{#- Fails for every combination of the columns that more than one row has: the grain of a model
    whose key is not one column. -#}
{% test unique_combination(model, columns) %}

{{ config(meta={'scope': 'keys'}) }}

select
  {{ columns | join(', ') }},
  count(*) as row_count
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1

{% endtest %}

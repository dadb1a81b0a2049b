{#- Fails for every value with a fraction. The source sends minutes as floats and staging stores
    them as integers, so a fraction would be rounded away without this. -#}
{% test whole_number(model, column_name) %}

{{ config(meta={'scope': 'changed'}) }}

select {{ column_name }}
from {{ model }}
where {{ column_name }} <> trunc({{ column_name }})

{% endtest %}

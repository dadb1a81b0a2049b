{% materialization versioned, adapter='postgres' %}
  {{ return(materialization_table_default()) }}
{% endmaterialization %}

{#- A table that is built anew as a whole. Inside Sluice the relation has a name of its own, and becomes
    immutable once it is built; in plain dbt this is dbt's own table, with contract, constraints, indexes,
    grants and comments. -#}
{% materialization versioned, adapter='postgres' %}
  {{ return(materialization_table_default()) }}
{% endmaterialization %}

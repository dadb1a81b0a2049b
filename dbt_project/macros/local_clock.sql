{#- The wall clock of New York at an instant, as the source writes it: 517 is 05:17. Midnight is 0,
    where the source says 2400. -#}
{% macro local_clock(instant) -%}
cast(to_char({{ instant }} at time zone 'America/New_York', 'HH24MI') as integer)
{%- endmacro %}

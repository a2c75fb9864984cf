{#- Views add intervals of a given length; those of a length that is computed are for tables. -#}
{% macro viewlet__dateadd(datepart, interval, from_date_or_timestamp) -%}
  {%- set unit = datepart | lower -%}
  {%- set times, unit = {'quarter': (3, 'month'), 'week': (7, 'day')}.get(unit, (1, unit)) -%}
  {%- if interval is number or (interval | string | trim).lstrip('-').isdigit() -%}
    {%- set length = (interval | int) * times -%}
    ({{ from_date_or_timestamp }} {{ '-' if length < 0 else '+' }} interval '{{ length | abs }}' {{ unit }})
  {%- else -%}
    ({{ from_date_or_timestamp }} + (cast({{ interval }} as bigint) * {{ times }}) * interval 1 {{ unit }})
  {%- endif -%}
{%- endmacro %}

{% macro viewlet__datediff(first_date, second_date, datepart) -%}
  date_diff('{{ datepart }}', cast({{ first_date }} as timestamp), cast({{ second_date }} as timestamp))
{%- endmacro %}

{% macro viewlet__last_day(date, datepart) -%}
  {%- if datepart == 'quarter' -%}
    cast({{ dbt.dateadd('day', '-1', dbt.dateadd('month', '3', dbt.date_trunc(datepart, date))) }} as date)
  {%- else -%}
    {{ dbt.default_last_day(date, datepart) }}
  {%- endif -%}
{%- endmacro %}

{% macro viewlet__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
  {%- if limit_num -%}
    list_aggr((array_agg({{ measure }} {{ order_by_clause or '' }}))[1:{{ limit_num }}], 'string_agg', {{ delimiter_text }})
  {%- else -%}
    string_agg({{ measure }}, {{ delimiter_text }} {{ order_by_clause or '' }})
  {%- endif -%}
{%- endmacro %}

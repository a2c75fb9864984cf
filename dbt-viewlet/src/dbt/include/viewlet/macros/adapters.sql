{% macro viewlet__create_table_as(temporary, relation, sql) -%}
  create or replace table {{ relation.render() }} as
  {{ sql }}
{%- endmacro %}

{% macro viewlet__create_view_as(relation, sql) -%}
  create or replace materialized view {{ relation.render() }} as
  {{ sql }}
{%- endmacro %}

{% macro viewlet__get_create_materialized_view_as_sql(relation, sql) -%}
  {{ return(viewlet__create_view_as(relation, sql)) }}
{%- endmacro %}

{% macro viewlet__get_columns_in_relation(relation) -%}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{%- endmacro %}

{% macro viewlet__truncate_relation(relation) -%}
  {% call statement('truncate_relation') -%}
    truncate {{ relation.render() }}
  {%- endcall %}
{%- endmacro %}

{% macro viewlet__generate_schema_name(custom_schema_name, node) -%}
  {%- if custom_schema_name is not none and target.schema == 'main' -%}
    {{ custom_schema_name | trim }}
  {%- else -%}
    {{ default__generate_schema_name(custom_schema_name, node) }}
  {%- endif -%}
{%- endmacro %}

{#- There are no transactions around hooks: statements are batches of their own. -#}
{% macro run_hooks(hooks, inside_transaction=True) %}
  {% for hook in hooks | selectattr('transaction', 'equalto', inside_transaction) %}
    {% set rendered = render(hook.get('sql')) | trim %}
    {% if (rendered | length) > 0 %}
      {% call statement(auto_begin=False) %}
        {{ rendered }}
      {% endcall %}
    {% endif %}
  {% endfor %}
{% endmacro %}

{% macro viewlet__current_timestamp() -%}
  cast(now() at time zone 'UTC' as timestamp)
{%- endmacro %}

{% macro viewlet__snapshot_string_as_time(timestamp) -%}
  {{ return("cast('" ~ timestamp ~ "' as timestamp)") }}
{%- endmacro %}

{% macro viewlet__post_snapshot(staging_relation) -%}
  {% do adapter.drop_relation(staging_relation) %}
{%- endmacro %}

{% macro viewlet__alter_relation_comment(relation, comment) -%}
  comment on {{ relation.type }} {{ relation.render() }} is '{{ comment | replace("'", "''") }}'
{%- endmacro %}

{% macro viewlet__alter_column_comment(relation, columns) -%}
  {%- for name in columns if name in adapter.get_columns_in_relation(relation) | map(attribute='name') %}
  comment on column {{ relation.render() }}.{{ adapter.quote(name) }} is '{{ columns[name].description | replace("'", "''") }}';
  {%- endfor %}
{%- endmacro %}

{% macro viewlet__begin() %}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
{% endmacro %}

{#- What follows every materialization; the answer is what it has made. -#}
{% macro viewlet__end(target_relation) %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmacro %}

{#- Models of the kinds view, materialized_view and incremental are views that Viewlet keeps fresh. -#}
{% macro viewlet__maintained() %}
  {%- set target_relation = this.incorporate(type='view') -%}
  {%- do viewlet__begin() -%}
  {%- if config.get('contract').enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif -%}
  {%- set done = adapter.maintain(target_relation, sql, should_full_refresh()) -%}
  {% call noop_statement('main', done ~ ' VIEW', done, -1) -%}
    {{ sql }}
  {%- endcall %}
  {{ return(viewlet__end(target_relation)) }}
{% endmacro %}

{% materialization view, adapter='viewlet' %}
  {{ return(viewlet__maintained()) }}
{% endmaterialization %}

{% materialization materialized_view, adapter='viewlet' %}
  {{ return(viewlet__maintained()) }}
{% endmaterialization %}

{% materialization incremental, adapter='viewlet' %}
  {{ return(viewlet__maintained()) }}
{% endmaterialization %}

{% materialization table, adapter='viewlet' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- do viewlet__begin() -%}
  {%- set columns, query = '', sql -%}
  {%- if config.get('contract').enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
    {%- set columns = get_table_columns_and_constraints() | trim -%}
    {%- set columns, query = columns[1:-1], get_select_subquery(sql) -%}
  {%- endif -%}
  {%- set done = adapter.fill(target_relation, query, columns, should_full_refresh()) -%}
  {% call noop_statement('main', done.action ~ ' ' ~ done.rows, done.action, done.rows) -%}
    {{ sql }}
  {%- endcall %}
  {{ return(viewlet__end(target_relation)) }}
{% endmaterialization %}

{#- With store_failures_as: view, the failures of a test are a view that Viewlet keeps fresh. -#}
{% materialization test, adapter='viewlet' %}
  {%- if not should_store_failures() or config.get('store_failures_as') != 'view' -%}
    {{ return(materialization_test_default()) }}
  {%- endif -%}
  {%- set target_relation = api.Relation.create(
      identifier=model['alias'], schema=schema, database=database, type='view') -%}
  {%- do adapter.maintain(target_relation, get_limit_subquery_sql(sql, config.get('limit'))) -%}
  {% call statement('main', fetch_result=True) -%}
    {{ get_test_sql('select * from ' ~ target_relation, config.get('fail_calc'), config.get('warn_if'), config.get('error_if'), limit=none) }}
  {%- endcall %}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

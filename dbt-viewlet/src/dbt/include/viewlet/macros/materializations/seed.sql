{% materialization seed, adapter='viewlet' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- do store_raw_result('agate_table', message='OK', agate_table=load_agate_table() if flags.SHOW else none) -%}
  {%- set done = adapter.seed(target_relation, model, should_full_refresh()) -%}
  {% call noop_statement('main', done.action ~ ' ' ~ done.rows, done.action, done.rows) -%}
    -- the rows of {{ model.original_file_path }}
  {%- endcall %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}

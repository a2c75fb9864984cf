{% materialization seed, adapter='viewlet' %}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- do viewlet__begin() -%}
  {%- do store_raw_result('agate_table', message='OK', agate_table=load_agate_table() if flags.SHOW else none) -%}
  {%- set done = adapter.seed(target_relation, model, should_full_refresh()) -%}
  {% call noop_statement('main', done.action ~ ' ' ~ done.rows, done.action, done.rows) -%}
    -- the rows of {{ model.original_file_path }}
  {%- endcall %}
  {{ return(viewlet__end(target_relation)) }}
{% endmaterialization %}

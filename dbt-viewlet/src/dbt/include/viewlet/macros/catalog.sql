{% macro viewlet__get_catalog(information_schema, schemas) -%}
  {{ return(run_query(viewlet__catalog_sql(information_schema, schemas))) }}
{%- endmacro %}

{% macro viewlet__get_catalog_relations(information_schema, relations) -%}
  {%- set names = [] -%}
  {%- for relation in relations -%}
    {%- do names.append("'" ~ (relation.stored_name | replace("'", "''")) ~ "'") -%}
  {%- endfor -%}
  {%- set schemas = relations | map(attribute='schema') | unique | list -%}
  {{ return(run_query(viewlet__catalog_sql(information_schema, schemas, names))) }}
{%- endmacro %}

{% macro viewlet__catalog_sql(information_schema, schemas, names=none) -%}
  {%- for schema in schemas %}
    {%- set prefix = adapter.prefix_of(schema) | replace("'", "''") %}
    select
      '{{ target.database }}' as table_database,
      '{{ schema | replace("'", "''") }}' as table_schema,
      substr(c.table_name, {{ (prefix | length) + 1 }}) as table_name,
      t.table_type as table_type,
      t.comment as table_comment,
      c.column_name as column_name,
      c.column_index as column_index,
      c.data_type as column_type,
      c.comment as column_comment,
      cast(null as varchar) as table_owner
    from (
      select table_name, 'BASE TABLE' as table_type, comment from duckdb_tables()
      union all
      select view_name, 'VIEW', comment from duckdb_views()
    ) as t
    join duckdb_columns() as c on c.table_name = t.table_name
    where starts_with(t.table_name, '{{ prefix }}')
    {%- if names is not none %} and t.table_name in ({{ names | join(', ') }}) {%- endif %}
    {{- ' union all ' if not loop.last }}
  {%- endfor %}
  order by table_schema, table_name, column_index
{%- endmacro %}

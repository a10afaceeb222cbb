{% macro qoop__create_table_as(temporary, relation, sql) -%}
  create or replace table {{ relation }} as {{ sql }}
{%- endmacro %}

{% macro qoop__truncate_relation(relation) -%}
  {% call statement('truncate_relation') %}delete from {{ relation }}{% endcall %}
{%- endmacro %}

{% macro qoop__make_temp_relation(base_relation, suffix) -%}
  {{ return(base_relation.incorporate(path={'identifier': base_relation.identifier ~ suffix}, type='table')) }}
{%- endmacro %}

{% macro qoop__get_binding_char() -%}
  {{ return('?') }}
{%- endmacro %}

{% macro qoop__get_catalog(information_schema, schemas) -%}
  {% call statement('catalog', fetch_result=True) %}
    select '{{ information_schema.database }}' as table_database, t.table_schema, t.table_name,
           t.table_type, null as table_comment, null as table_owner, c.column_name,
           c.ordinal_position as column_index, c.data_type as column_type, null as column_comment
    from information_schema.tables t join information_schema.columns c using (table_schema, table_name)
    where lower(t.table_schema) in (
      {%- for schema in schemas %}lower('{{ schema | replace("'", "''") }}'){{ ", " if not loop.last }}{% endfor -%}
    )
    order by ALL
  {% endcall %}
  {{ return(load_result('catalog').table) }}
{%- endmacro %}

{% materialization view, adapter='qoop' %}
  {%- set old = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='view') -%}
  {{ run_hooks(pre_hooks) }}
  {% if old is not none and not old.is_view %}{% do adapter.drop_relation(old) %}{% endif %}
  {% call noop_statement('main', 'OK') %}{{ sql }}{% endcall %}
  {% do adapter.create_view(target, sql) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% materialization table, adapter='qoop' %}
  {%- set old = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='table') -%}
  {{ run_hooks(pre_hooks) }}
  {% if old is not none and old.is_view %}{% do adapter.drop_relation(old) %}{% endif %}
  {% call statement('main') %}{{ create_table_as(False, target, sql) }}{% endcall %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% materialization incremental, adapter='qoop' %}
  {%- set old = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='table') -%}
  {%- set keys = config.get('unique_key') -%}
  {{ run_hooks(pre_hooks) }}
  {% if old is not none and old.is_view %}{% do adapter.drop_relation(old) %}{% endif %}
  {% if old is none or old.is_view or should_full_refresh() %}
    {% call statement('main') %}{{ create_table_as(False, target, sql) }}{% endcall %}
  {% elif not keys %}
    {% call statement('main') %}insert into {{ target }} by name {{ sql }}{% endcall %}
  {% else %}
    {%- set new = make_temp_relation(target) -%}
    {% call statement('new') %}{{ create_table_as(True, new, sql) }}{% endcall %}
    {% call statement('old') %}{{ qoop__delete_of_keys(target, new, [keys] if keys is string else keys) }}{% endcall %}
    {% call statement('main') %}insert into {{ target }} by name select * from {{ new }}{% endcall %}
    {% do adapter.drop_relation(new) %}
  {% endif %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% macro qoop__delete_of_keys(target, new, keys) %}
  {%- set named = [] -%}
  {%- for key in keys -%}{%- do named.append(adapter.quote(key)) -%}{%- endfor -%}
  delete from {{ target }} where ({{ named | join(', ') }}) in (select ({{ named | join(', ') }}) from {{ new }})
{% endmacro %}

{% materialization snapshot, adapter='qoop' %}
  {% do exceptions.raise_compiler_error("qoop has no snapshots: " ~ this) %}
{% endmaterialization %}

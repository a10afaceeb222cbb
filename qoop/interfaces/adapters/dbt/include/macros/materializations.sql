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
  {% if old is not none and not old.is_table %}{% do adapter.drop_relation(old) %}{% endif %}
  {% call statement('main') %}{{ create_table_as(False, target, sql) }}{% endcall %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% materialization incremental, adapter='qoop' %}
  {%- set old = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='table') -%}
  {%- set keys = config.get('unique_key') -%}
  {{ run_hooks(pre_hooks) }}
  {% if old is not none and not old.is_table %}{% do adapter.drop_relation(old) %}{% endif %}
  {% if old is none or not old.is_table or should_full_refresh() %}
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

{% materialization materialized_view, adapter='qoop' %}
  {%- set old = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='materialized_view') -%}
  {{ run_hooks(pre_hooks) }}
  {% if old is not none and (not old.is_materialized_view or should_full_refresh()) %}
    {% do adapter.drop_relation(old) %}
  {% endif %}
  {% call statement('main') %}
    create or replace materialized view {{ target }} {{ qoop__options_of_view() }} as {{ sql }}
  {% endcall %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target]}) }}
{% endmaterialization %}

{% macro qoop__options_of_view() %}
  {%- set options = [] -%}
  {%- for name in ('target_lag', 'refresh_mode', 'max_error') if config.get(name) is not none -%}
    {%- do options.append(name ~ " = '" ~ (config.get(name) | replace("'", "''")) ~ "'") -%}
  {%- endfor -%}
  {{ "with (" ~ options | join(', ') ~ ")" if options }}
{% endmacro %}

{% macro qoop__delete_of_keys(target, new, keys) %}
  {%- set named = [] -%}
  {%- for key in keys -%}{%- do named.append(adapter.quote(key)) -%}{%- endfor -%}
  delete from {{ target }} where ({{ named | join(', ') }}) in (select ({{ named | join(', ') }}) from {{ new }})
{% endmacro %}

{% materialization snapshot, adapter='qoop' %}
  {% do exceptions.raise_compiler_error("qoop has no snapshots: " ~ this) %}
{% endmaterialization %}

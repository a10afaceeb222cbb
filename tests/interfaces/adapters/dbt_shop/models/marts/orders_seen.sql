{{ config(materialized='incremental', unique_key='order_id') }}
select order_id, status, ordered_on from {{ ref('stg_orders') }}
{% if is_incremental() %} where ordered_on >= (select max(ordered_on) from {{ this }}) {% endif %}

select id as customer_id, name, since from {{ ref('raw_customers') }}

select id as payment_id, order_id, method, cents / 100 as amount from {{ ref('raw_payments') }}

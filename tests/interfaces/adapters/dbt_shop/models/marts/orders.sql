{% set methods = ['card', 'voucher', 'transfer'] %}
select o.order_id, o.customer_id, o.ordered_on, o.status,
  {% for method in methods %}
    sum(case when p.method = '{{ method }}' then p.amount else 0 end) as {{ method }}_amount,
  {% endfor %}
    sum(p.amount) as amount
from {{ ref('stg_orders') }} o left join {{ ref('stg_payments') }} p using (order_id)
group by all

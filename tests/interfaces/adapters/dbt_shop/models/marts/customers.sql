select c.customer_id, c.name, min(o.ordered_on) as first_order, max(o.ordered_on) as last_order,
    count(o.order_id) as orders, sum(o.amount) as spent
from {{ ref('stg_customers') }} c left join {{ ref('orders') }} o using (customer_id)
group by all

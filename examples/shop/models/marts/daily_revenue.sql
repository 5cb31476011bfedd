select
    order_date,
    count(*) as order_count,
    sum(amount) as revenue
from {{ ref('orders') }}
where status not in ('returned', 'return_pending')
group by order_date

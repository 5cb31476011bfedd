with orders as (
    select
        customer_id,
        min(order_date) as first_order,
        max(order_date) as latest_order,
        count(*) as order_count,
        sum(amount) as lifetime_value
    from {{ ref('orders') }}
    group by customer_id
)

select
    c.customer_id,
    c.first_name,
    c.last_name,
    o.first_order,
    o.latest_order,
    coalesce(o.order_count, 0) as order_count,
    coalesce(o.lifetime_value, 0) as lifetime_value
from {{ ref('stg_customers') }} as c
left join orders as o using (customer_id)

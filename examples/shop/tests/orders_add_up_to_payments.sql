-- Every order's amount is the sum of its payments.
select
    o.order_id,
    o.amount,
    sum(p.amount) as paid
from {{ ref('orders') }} as o
inner join {{ ref('stg_payments') }} as p using (order_id)
group by o.order_id, o.amount
having sum(p.amount) <> o.amount

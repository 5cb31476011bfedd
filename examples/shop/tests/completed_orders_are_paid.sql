-- Nothing that was completed is without a payment.
select order_id
from {{ ref('orders') }}
where status = 'completed' and amount <= 0

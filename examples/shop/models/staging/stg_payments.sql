select
    id as payment_id,
    order_id,
    payment_method,
    cast(amount_cents / 100.0 as decimal(12, 2)) as amount
from {{ source('shop', 'raw_payments') }}

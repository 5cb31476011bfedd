{% set methods = ['credit_card', 'bank_transfer', 'coupon', 'gift_card'] %}

with payments as (
    select
        order_id,
        {% for method in methods -%}
        sum(case when payment_method = '{{ method }}' then amount else 0 end) as {{ method }}_amount,
        {% endfor -%}
        sum(amount) as amount
    from {{ ref('stg_payments') }}
    group by order_id
)

select
    o.order_id,
    o.customer_id,
    o.order_date,
    o.status,
    {% for method in methods -%}
    coalesce(p.{{ method }}_amount, 0) as {{ method }}_amount,
    {% endfor -%}
    coalesce(p.amount, 0) as amount
from {{ ref('stg_orders') }} as o
left join payments as p using (order_id)

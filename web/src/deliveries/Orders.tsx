import type { DeliveryOrderState, OrderFieldsFragment } from "../api/gen/graphql";
import { instant } from "../api/model";
import { deliveries as words } from "../messages/deliveries";
import css from "../styles/Form.module.css";
import { type Column, Table } from "../ui/Table";
import { Time } from "../ui/Time";

export type Order = OrderFieldsFragment;

const TONES: Partial<Record<DeliveryOrderState, string>> = { DONE: "good", FAILED: "bad" };

const COLUMNS: Column<Order>[] = [
  {
    head: words.order,
    main: true,
    cell: ({ kind, since, until }) => (
      <>
        {words.orderKinds[kind]}
        {since !== null && (
          <>
            {" "}
            <Time at={instant(since)} format="full" />
            {until !== null && (
              <>
                {" "}
                {words.range} <Time at={instant(until)} format="full" />
              </>
            )}
          </>
        )}
      </>
    ),
  },
  { head: words.when, cell: ({ at }) => <Time at={instant(at)} /> },
  { head: words.asked, cell: ({ actor }) => actor },
  { head: words.outcome, text: true, cell: (order) => <Outcome order={order} /> },
  { head: words.reason, text: true, cell: ({ reason }) => reason },
];

/** What people asked of the destination in the last 30 days, and what became of it. */
export function Orders({ orders }: { orders: readonly Order[] }) {
  return (
    <section className={css.section}>
      <h2>{words.orders}</h2>
      {orders.length === 0 ? (
        <p className={css.hint}>{words.noOrders}</p>
      ) : (
        <Table label={words.orders} columns={COLUMNS} rows={orders} rowKey={({ id }) => id} />
      )}
    </section>
  );
}

function Outcome({ order: { kind, state, messages, sent, failed, error } }: { order: Order }) {
  return (
    <span>
      <span className={css.tone} data-tone={TONES[state]}>
        {words.orderStates[state]}
      </span>
      {kind !== "TEST" && messages > 0 && `: ${words.counts(messages, sent, failed)}`}
      {error !== null && `: ${error}`}
    </span>
  );
}

import { useReceipts } from "../actions/context";
import { ReceiptStages, ReceiptTitle } from "../actions/Receipt";
import { m } from "../messages";
import { Notice } from "../ui/Page";
import css from "./Details.module.css";

/** Every signal that this run was sent, by anyone, with how far each has come. */
export function RunReceipts({ runId }: { runId: string }) {
  const signals = useReceipts().filter((signal) => signal.runId === runId);
  if (signals.length === 0) return <Notice title={m.receipt.empty} />;
  return (
    <ul className={css.receipts}>
      {signals.map((signal) => (
        <li key={signal.signalId} className={css.receipt}>
          <p>
            <ReceiptTitle signal={signal} /> {m.receipt.by(signal.actor)}
            {signal.reason && `: “${signal.reason}”`}
          </p>
          <ReceiptStages signal={signal} />
        </li>
      ))}
    </ul>
  );
}

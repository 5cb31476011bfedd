import { Check } from "lucide-react";
import type { Sendable } from "../actions/intent";
import type { Decision } from "../api/gen/graphql";
import { m } from "../messages";
import { useReceipts } from "../receipts/context";
import { ReceiptStages } from "../receipts/Receipt";
import css from "./Attention.module.css";

export interface SentAction {
  action: Sendable;
  /** Null for a decision, which has no receipt. */
  signalId: string | null;
  decision: Decision | null;
  /** The attempt of the step for which it was sent. */
  attempt: number | null;
}

interface SentProps {
  runId: string;
  /** The attempt that needs attention now. */
  attempt: number | null;
  sent: SentAction;
}

/** The progress of the viewer's signal. The item leaves the list when its run moves on. */
export function Sent({ runId, attempt, sent }: SentProps) {
  const { action, signalId, decision } = sent;
  const again = action === "RETRY_STEP" && (attempt ?? 0) > (sent.attempt ?? 0);
  const receipt = useReceipts().find((signal) => signal.runId === runId && signal.signalId === signalId);
  return (
    <div role="status" className={css.sent}>
      <Check size={14} aria-hidden="true" />
      {decision === null ? m.attention.sent(m.action[action]) : m.attention.decided[decision]}
      {receipt && <ReceiptStages signal={receipt} brief />}
      {again && <strong className={css.again}>→ {m.attention.failedAgain}</strong>}
    </div>
  );
}

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
}

/** How far what the viewer sent has come. The item leaves the list when its run moves on. */
export function Sent({ runId, sent: { action, signalId, decision } }: { runId: string; sent: SentAction }) {
  const receipt = useReceipts().find((signal) => signal.runId === runId && signal.signalId === signalId);
  return (
    <div role="status" className={css.sent}>
      <Check size={14} aria-hidden="true" />
      {decision === null ? m.attention.sent(m.action[action]) : m.attention.decided[decision]}
      {receipt && <ReceiptStages signal={receipt} brief />}
    </div>
  );
}

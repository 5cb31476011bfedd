import { X } from "lucide-react";
import { useState } from "react";
import { m } from "../messages";
import { useHeader, useRunState, useRunStore } from "../runstate/context";
import { useViewer } from "../session/viewer";
import { Button } from "../ui/Button";
import { useTick } from "../ui/Time";
import { receipts, useDismissed } from "./context";
import { followed } from "./followed";
import { ReceiptStages, ReceiptTitle } from "./Receipt";
import css from "./Receipt.module.css";
import { failed, settled } from "./receipts";
import { useRunReceipts } from "./useRunReceipts";

/** An applied receipt stays in its place for this time; the tray keeps it. */
const SHOWN_MS = 600_000;
const SLOW_MS = 5_000;
const STUCK_MS = 30_000;

interface ReceiptLineProps {
  runId: string;
  /** Only receipts of signals to this step. */
  stepId?: string;
}

/**
 * The viewer's newest receipt of this run, in its place as one line: how far it has come, and what followed. A refused
 * one stays until it is dismissed or another signal is sent.
 */
export function ReceiptLine({ runId, stepId }: ReceiptLineProps) {
  const { principal } = useViewer();
  const store = useRunStore();
  const header = useHeader();
  const dismissed = useDismissed();
  const [closed, close] = useState<string | null>(null);
  const signal = useRunReceipts(runId).find(
    (own) => own.actor === principal && (stepId === undefined || own.stepId === stepId),
  );
  const id = signal?.stepId ?? null;
  // Renders again when the step moves, for what followed.
  useRunState((state) => (id === null ? 0 : (state.step(id)?.changedSeq ?? 0)));
  const now = Date.now();
  const shown =
    signal !== undefined &&
    signal.signalId !== closed &&
    !dismissed.has(signal.signalId) &&
    (failed(signal) || !settled(signal) || now - (signal.appliedAt ?? signal.receivedAt) < SHOWN_MS);
  useTick(1_000, shown && !settled(signal));
  if (!shown) return null;
  const bad = failed(signal);
  const sequel = followed(signal, header, id === null ? undefined : store.step(id));
  return (
    <div className={css.here} role={bad ? "alert" : "status"} data-bad={bad || undefined} data-receipt={signal.type}>
      <ReceiptTitle signal={signal} here />
      <ReceiptStages
        signal={signal}
        slow={now - signal.receivedAt > SLOW_MS}
        stuck={now - signal.receivedAt > STUCK_MS}
        failed={sequel?.tone === "failed"}
        brief
      />
      {sequel !== null && (
        <strong data-testid="followed" className={css.stage} data-tone={sequel.tone}>
          → {sequel.words}
        </strong>
      )}
      <Button
        kind="quiet"
        label={m.receipt.dismiss}
        onClick={() => (bad ? receipts.dismiss(signal.signalId) : close(signal.signalId))}
      >
        <X size={14} aria-hidden="true" />
      </Button>
    </div>
  );
}

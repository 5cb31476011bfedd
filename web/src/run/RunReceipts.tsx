import { Link } from "@tanstack/react-router";
import { followed } from "../receipts/followed";
import { ReceiptStages, ReceiptTitle } from "../receipts/Receipt";
import type { Signal } from "../api/model";
import { m } from "../messages";
import { useRunReceipts } from "../receipts/useRunReceipts";
import { useHeader, useStep } from "../runstate/context";
import { Notice } from "../ui/Page";
import { Time } from "../ui/Time";
import receipt from "../receipts/Receipt.module.css";
import css from "./RunReceipts.module.css";

/** Every signal to this run, by anyone, with its stages. */
export default function RunReceipts({ runId }: { runId: string }) {
  const signals = useRunReceipts(runId);
  if (signals.length === 0) return <Notice title={m.receipt.empty} />;
  return (
    <ol className={css.receipts} reversed>
      {signals.map((signal) => (
        <li key={signal.signalId} className={css.receipt} data-signal={signal.signalId}>
          <p className={css.line}>
            <ReceiptTitle signal={signal} here /> <span>{m.receipt.by(signal.actor)}</span>{" "}
            {signal.reason && <span>“{signal.reason}”</span>}
          </p>
          <Outcome signal={signal} />
          <Moments signal={signal} />
        </li>
      ))}
    </ol>
  );
}

/**
 * The stages, and what became of the step of a retry or a skip. Of a signal to the run only the newest could say it, and the header
 * does.
 */
function Outcome({ signal }: { signal: Signal }) {
  const header = useHeader();
  const step = useStep(signal.stepId ?? "");
  const sequel = signal.stepId === null ? null : followed(signal, header, step);
  return (
    <>
      <ReceiptStages signal={signal} failed={sequel?.tone === "failed"} />
      {sequel !== null && (
        <strong data-testid="outcome" className={receipt.stage} data-tone={sequel.tone}>
          → {sequel.words}
        </strong>
      )}
    </>
  );
}

/** The time of each stage, with links to the events of the log. */
function Moments({ signal }: { signal: Signal }) {
  const { decision, receivedAt, deliveredAt, appliedAt, acceptedSeq, appliedSeq, quiescentSeq, signalId } = signal;
  const moments = [
    { name: decision === "REJECTED" ? m.receipt.recorded : m.receipt.ACCEPTED, at: receivedAt, seq: acceptedSeq },
    { name: m.receipt.DELIVERED, at: deliveredAt, seq: null },
    { name: m.receipt.APPLIED, at: appliedAt, seq: appliedSeq },
    { name: m.receipt.quiet, at: null, seq: quiescentSeq },
  ].filter(({ at, seq }) => at !== null || seq !== null);
  return (
    <dl className={css.moments}>
      {moments.map(({ name, at, seq }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {at !== null && <Time at={at} format="precise" />}{" "}
            {seq !== null && (
              <Link from="/runs/$runId" to="." search={(old) => ({ ...old, view: "events", seq, types: undefined })}>
                seq {seq}
              </Link>
            )}
          </dd>
        </div>
      ))}
      <div>
        <dt>{m.receipt.id}</dt>
        <dd>
          <code>{signalId}</code>
        </dd>
      </div>
    </dl>
  );
}

import { Link } from "@tanstack/react-router";
import { X } from "lucide-react";
import type { BulkFieldsFragment } from "../api/gen/graphql";
import type { Signal } from "../api/model";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { Time, useTick } from "../ui/Time";
import { receipts } from "./context";
import type { Done } from "../session/done";
import { DoneText } from "./DoneLine";
import { ReceiptStages, ReceiptTitle } from "./Receipt";
import receipt from "./Receipt.module.css";
import { settled } from "./receipts";
import { useSignalSequel } from "./useSignalSequel";
import css from "./Tray.module.css";

const LISTED = 50;
/** The number of entries, the first ones, whose sequel is asked for. */
const ASKED = 10;
const SLOW_MS = 5_000;
const STUCK_MS = 30_000;

/** An entry of the tray. A refused one waits to be dismissed. */
export type Entry = { key: string; at: number; refused: boolean } & (
  { kind: "signal"; signal: Signal } | { kind: "bulk"; bulk: BulkFieldsFragment } | { kind: "done"; done: Done }
);

/** The entries of the tray: the refused ones, then the newest. */
export function TrayList({ entries }: { entries: readonly Entry[] }) {
  useTick(
    1_000,
    entries.some((entry) => entry.kind === "signal" && !settled(entry.signal)),
  );
  if (entries.length === 0) return <p>{m.receipt.empty}</p>;
  const refused = entries.flatMap((entry) => (entry.refused && entry.kind === "signal" ? [entry.signal] : []));
  return (
    <>
      {refused.length > 0 && (
        <p className={css.head}>
          <strong>{m.receipt.refused(refused.length)}</strong>
          <Button kind="quiet" onClick={() => receipts.dismiss(...refused.map(({ signalId }) => signalId))}>
            {m.receipt.dismissAll}
          </Button>
        </p>
      )}
      <ul className={css.list}>
        {entries.slice(0, LISTED).map((entry, i) => (
          <li key={entry.key} className={css.entry} data-bad={entry.refused || undefined}>
            <EntryText entry={entry} ask={i < ASKED} />
          </li>
        ))}
      </ul>
    </>
  );
}

function EntryText({ entry, ask }: { entry: Entry; ask: boolean }) {
  switch (entry.kind) {
    case "done":
      return <DoneText entry={entry.done} />;
    case "bulk":
      return <BulkText bulk={entry.bulk} />;
    case "signal":
      return <SignalText signal={entry.signal} refused={entry.refused} ask={ask} />;
  }
}

/** A receipt, and what followed it: one that was applied may have failed again. */
function SignalText({ signal, refused, ask }: { signal: Signal; refused: boolean; ask: boolean }) {
  const known = useSignalSequel(signal, ask);
  const age = Date.now() - signal.receivedAt;
  const sequel = known?.sequel ?? null;
  return (
    <div data-receipt={signal.type}>
      <div className={css.head}>
        <ReceiptTitle signal={signal} known={known} />
        {refused && (
          <Button kind="quiet" label={m.receipt.dismiss} onClick={() => receipts.dismiss(signal.signalId)}>
            <X size={14} aria-hidden="true" />
          </Button>
        )}
      </div>
      <ReceiptStages signal={signal} slow={age > SLOW_MS} stuck={age > STUCK_MS} failed={sequel?.tone === "failed"} />
      {sequel !== null && (
        <strong className={receipt.stage} data-tone={sequel.tone}>
          → {sequel.words}
        </strong>
      )}
    </div>
  );
}

/** A bulk as one entry, with its progress. */
function BulkText({ bulk }: { bulk: BulkFieldsFragment }) {
  const { counts } = bulk;
  const refused = counts.rejected + counts.refused;
  return (
    <div data-bulk={bulk.id}>
      <Link to="/bulk/$id" params={{ id: bulk.id }}>
        {m.bulk.verb(bulk.action, m.bulk.runs(counts.total))}
      </Link>{" "}
      <span className={receipt.note}>
        <Time at={Date.parse(bulk.createdAt)} format="clock" />
      </span>
      <div className={receipt.stages}>
        <span>{m.bulk.state(bulk.state, counts.total - counts.waiting - counts.notSent, counts.total)}</span>
        {refused > 0 && (
          <span className={receipt.stage} data-tone="failed">
            {m.bulk.refusedOf(refused)}
          </span>
        )}
      </div>
    </div>
  );
}

import { X } from "lucide-react";
import { useState } from "react";
import type { Signal } from "../api/model";
import { m } from "../messages";
import { DAY_MS } from "../format/format";
import { useTick } from "../ui/Time";
import { Button } from "../ui/Button";
import { receipts, useDismissed, useReceipts } from "./context";
import { useViewer } from "../session/viewer";
import { ReceiptStages, ReceiptTitle } from "./Receipt";
import { failed, settled } from "./receipts";
import css from "./Tray.module.css";

const FOLD_MS = 6_000;
const SLOW_MS = 5_000;
const STUCK_MS = 30_000;
const LISTED = 20;
const IN_SIGHT = 3;
/** The prefix of signal ids of bulks, which have a page of their own. */
const BULK_SIGNAL = "bulk.";

/** The viewer's receipts: moving and failed ones stay visible, the others only count. */
export function Tray() {
  const viewer = useViewer();
  const own = useReceipts().filter(
    (signal) => signal.actor === viewer.principal && !signal.signalId.startsWith(BULK_SIGNAL),
  );
  const dismissed = useDismissed();
  const [open, setOpen] = useState(false);
  const now = Date.now();
  const sight = own.filter((signal) => {
    if (dismissed.has(signal.signalId) || now - signal.receivedAt > DAY_MS) return false;
    return failed(signal) || !settled(signal) || now - (signal.appliedAt ?? signal.receivedAt) < FOLD_MS;
  });
  useTick(1_000, sight.length > 0);
  const shown = open ? own.slice(0, LISTED) : sight.slice(0, IN_SIGHT);
  return (
    <>
      <Button kind="quiet" pressed={open} onClick={() => setOpen(!open)}>
        {m.receipt.tray} {own.length > 0 && <span className={css.count}>{own.length}</span>}
      </Button>
      <section className={css.tray} aria-label={m.receipt.tray}>
        {open && own.length === 0 && <p className={css.card}>{m.receipt.empty}</p>}
        {shown.map((signal) => (
          <Card
            key={signal.signalId}
            signal={signal}
            now={now}
            dismissible={!dismissed.has(signal.signalId) && failed(signal)}
          />
        ))}
        {!open && sight.length > shown.length && (
          <Button kind="quiet" onClick={() => setOpen(true)}>
            {m.receipt.more(sight.length - shown.length)}
          </Button>
        )}
      </section>
    </>
  );
}

function Card({ signal, now, dismissible }: { signal: Signal; now: number; dismissible: boolean }) {
  const bad = failed(signal);
  return (
    <div className={css.card} role={bad ? "alert" : "status"} data-bad={bad || undefined} data-receipt={signal.type}>
      <div className={css.head}>
        <ReceiptTitle signal={signal} />
        {dismissible && (
          <Button kind="quiet" label={m.receipt.dismiss} onClick={() => receipts.dismiss(signal.signalId)}>
            <X size={14} aria-hidden="true" />
          </Button>
        )}
      </div>
      <ReceiptStages
        signal={signal}
        slow={now - signal.receivedAt > SLOW_MS}
        stuck={now - signal.receivedAt > STUCK_MS}
      />
    </div>
  );
}

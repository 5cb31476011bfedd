import { useEffect, useRef, useState } from "react";
import { BulksDocument } from "../api/gen/graphql";
import { instant } from "../api/model";
import { useQuery } from "../api/useQuery";
import { DAY_MS } from "../format/format";
import { m } from "../messages";
import { useViewer } from "../session/viewer";
import { Announce } from "../ui/Announce";
import { Button } from "../ui/Button";
import { receipts, useDismissed, useReceipts, useSeen } from "./context";
import { useDoneList } from "../session/done";
import { failed, TRAY } from "./receipts";
import { type Entry, TrayList } from "./TrayList";
import prose from "../styles/Prose.module.css";
import css from "./Tray.module.css";

const BULKS = 5;
const OPEN_MS = 3_000;
const CLOSED_MS = 60_000;
/** The prefix of signal ids of bulks: a bulk is one entry. */
const BULK_SIGNAL = "bulk.";

/**
 * The viewer's receipts behind a count in the bar: nothing of them lies over a page until it is opened. The count is of
 * those that came since it was opened. Refused ones are counted, and stand first until they are dismissed; a bulk is one
 * entry with its progress.
 */
export function Tray() {
  const { principal } = useViewer();
  const dismissed = useDismissed();
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const done = useDoneList();
  const { answer: bulks = [] } = useQuery(
    BulksDocument,
    { first: BULKS, after: null },
    (result) => result.bulks.edges.map(({ node }) => node),
    { every: open ? OPEN_MS : CLOSED_MS },
  );
  const since = Date.now() - DAY_MS;
  const own = useReceipts().filter(({ actor, signalId }) => actor === principal && !signalId.startsWith(BULK_SIGNAL));
  const entries: Entry[] = [
    ...own.map((signal): Entry => {
      const refused = failed(signal) && !dismissed.has(signal.signalId) && signal.receivedAt > since;
      return { kind: "signal", key: `${signal.runId}/${signal.signalId}`, at: signal.receivedAt, refused, signal };
    }),
    ...bulks.map((bulk): Entry => ({ kind: "bulk", key: bulk.id, at: instant(bulk.createdAt), refused: false, bulk })),
    ...done.map((entry): Entry => ({ kind: "done", key: entry.id, at: entry.at, refused: false, done: entry })),
  ].toSorted((a, b) => Number(b.refused) - Number(a.refused) || b.at - a.at);
  const refused = entries.filter((entry) => entry.refused).length;
  const seen = useSeen(TRAY);
  const fresh = entries.filter(({ at }) => at > seen).length;
  const newest = Math.max(0, ...entries.map(({ at }) => at));
  useEffect(() => {
    if (open) receipts.see(TRAY, newest);
  }, [open, newest]);
  const close = (): void => {
    setOpen(false);
    button.current?.focus();
  };
  return (
    <span className={css.place}>
      <Button ref={button} kind="quiet" pressed={open} onClick={() => setOpen(!open)}>
        {m.receipt.tray}
        {fresh > 0 && (
          <>
            {" "}
            <span className={css.count}>{fresh}</span> <span className={prose.hidden}>{m.receipt.fresh}</span>
          </>
        )}
        {refused > 0 && (
          <>
            {" "}
            <span className={css.count} data-bad>
              {refused} <span aria-hidden="true">✕</span>
            </span>{" "}
            <span className={prose.hidden}>{m.receipt.refusedWord}</span>
          </>
        )}
      </Button>
      <Announce text={refused > 0 ? m.receipt.refused(refused) : ""} />
      {open && (
        <Panel close={close}>
          <TrayList entries={entries} />
        </Panel>
      )}
    </span>
  );
}

/** The open tray. Esc and a click elsewhere close it; a long list scrolls inside. */
function Panel({ close, children }: { close: () => void; children: React.ReactNode }) {
  const panel = useRef<HTMLElement>(null);
  const latest = useRef(close);
  latest.current = close;
  useEffect(() => {
    const key = (event: KeyboardEvent): void => {
      if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
      // One Esc closes one thing: the tray, and not also the panel of a step.
      event.preventDefault();
      event.stopImmediatePropagation();
      latest.current();
    };
    const press = (event: PointerEvent): void => {
      const inside = event.target instanceof Node && panel.current?.parentElement?.contains(event.target);
      if (!inside) latest.current();
    };
    // A link of the tray opens a page that the tray would lie over.
    const follow = (event: MouseEvent): void => {
      const link = event.target instanceof Element && event.target.closest("a");
      if (link && panel.current?.contains(link)) latest.current();
    };
    document.addEventListener("keydown", key, { capture: true });
    document.addEventListener("pointerdown", press);
    document.addEventListener("click", follow);
    return () => {
      document.removeEventListener("keydown", key, { capture: true });
      document.removeEventListener("pointerdown", press);
      document.removeEventListener("click", follow);
    };
  }, []);
  return (
    <section ref={panel} className={css.tray} aria-label={m.receipt.tray}>
      {children}
    </section>
  );
}

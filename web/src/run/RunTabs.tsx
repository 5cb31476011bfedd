import { Link } from "@tanstack/react-router";
import { useEffect } from "react";
import { m } from "../messages";
import { receipts, useSeen } from "../receipts/context";
import { useRunReceipts } from "../receipts/useRunReceipts";
import { RUN_VIEWS, type RunView } from "../address/views";
import { useCurrentInSight } from "../ui/useCurrentInSight";
import tabs from "../styles/Tabs.module.css";
import css from "./RunTabs.module.css";

const EXACTLY = { exact: true, includeSearch: true };
export const FIRST_VIEW: RunView = "graph";

/** The views of the run, with their keys. Receipts have the number of those that came since they were looked at. */
export function RunTabs({ runId, view }: { runId: string; view: RunView }) {
  const signals = useRunReceipts(runId);
  const seen = useSeen(runId);
  const count = signals.filter(({ receivedAt }) => receivedAt > seen).length;
  const newest = Math.max(0, ...signals.map(({ receivedAt }) => receivedAt));
  useEffect(() => {
    if (view === "receipts") receipts.see(runId, newest);
  }, [runId, view, newest]);
  const row = useCurrentInSight<HTMLElement>(view);
  return (
    <nav ref={row} className={`${tabs.tabs} ${css.tabs}`} aria-label={m.run.views}>
      {RUN_VIEWS.map((name, i) => (
        <Link
          key={name}
          from="/runs/$runId"
          to="."
          search={(old) => ({ ...old, view: name === FIRST_VIEW ? undefined : name })}
          className={`${tabs.tab} ${css.tab}`}
          activeOptions={EXACTLY}
          aria-current={name === view ? "page" : undefined}
          aria-keyshortcuts={String(i + 1)}
        >
          <kbd className={css.key} aria-hidden="true">
            {i + 1}
          </kbd>
          {m.run.tabs[name]}
          {name === "receipts" && count > 0 && (
            <>
              {" "}
              <span className={css.badge}>{count}</span>
            </>
          )}
        </Link>
      ))}
    </nav>
  );
}

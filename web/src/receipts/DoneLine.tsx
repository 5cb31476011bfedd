import { Link } from "@tanstack/react-router";
import { Check } from "lucide-react";
import { m } from "../messages";
import { useViewer } from "../session/viewer";
import { Time, useTick } from "../ui/Time";
import { type Done, useDoneList } from "./done";
import css from "./Receipt.module.css";

/** A line under a button goes away after this time; the tray keeps it. */
const SHOWN_MS = 600_000;

/** The newest thing that the viewer did about a topic, under its button. */
export function DoneLine({ topic }: { topic: string }) {
  const entry = useDoneList().find((done) => done.topic === topic);
  const shown = entry !== undefined && Date.now() - entry.at < SHOWN_MS;
  useTick(60_000, shown);
  return (
    <div role="status" data-done={topic}>
      {shown && <DoneText entry={entry} />}
    </div>
  );
}

/** What was done, when, by whom, and the record in the audit for those who may read it. */
export function DoneText({ entry: { what, at, by, audit } }: { entry: Done }) {
  const { actions } = useViewer();
  return (
    <span className={css.stages}>
      <span className={css.stage} data-tone="success">
        <Check size={14} aria-hidden="true" /> {what}
      </span>
      <span className={css.note}>
        <Time at={at} format="clock" /> {m.receipt.by(by)}
      </span>
      {audit && actions.has("READ_AUDIT") && (
        <Link to="/audit" search={{ actor: by, action: audit.action, run: audit.run }}>
          {m.receipt.inAudit}
        </Link>
      )}
    </span>
  );
}

import { Link } from "@tanstack/react-router";
import { Check } from "lucide-react";
import { shortId } from "../format/format";
import { m } from "../messages";
import { useViewer } from "../session/viewer";
import { Time, useTick } from "../ui/Time";
import { type Done, type Effect, useDoneList } from "../session/done";
import css from "./Receipt.module.css";

/** A line under a button goes away after this time; the tray keeps it. */
const SHOWN_MS = 600_000;

/** The newest thing that the viewer did about a topic, under its button. */
export function DoneLine({ topic }: { topic: string }) {
  const entry = useDoneList().find((done) => done.topic === topic);
  const shown = entry !== undefined && Date.now() - entry.at < SHOWN_MS;
  useTick(60_000, shown);
  return (
    <div role="status" data-done={topic} className={css.done}>
      {shown && <DoneText entry={entry} here />}
    </div>
  );
}

/**
 * The receipt of a change: the action, its time and actor, a link to the effect unless the page is `here`, and one to
 * the record in the audit for those who may read it.
 */
export function DoneText({ entry, here = false }: { entry: Done; here?: boolean }) {
  const { what, at, by, audit, versions, effect } = entry;
  const { actions } = useViewer();
  return (
    <span className={css.stages}>
      <span className={css.stage} data-tone="success">
        <Check size={14} aria-hidden="true" /> {what}
        {versions && entry.topic !== "mode" && `: ${m.receipt.versions(...versions)}`}
      </span>
      <span className={css.note}>
        <Time at={at} format="clock" /> {m.receipt.by(by)}
      </span>
      {effect && !here && <EffectLink effect={effect} />}
      {audit && actions.has("READ_AUDIT") && (
        <Link to="/audit" search={{ actor: by, action: audit.action, run: audit.run, request: audit.request }}>
          {m.receipt.inAudit}
        </Link>
      )}
    </span>
  );
}

function EffectLink({ effect }: { effect: Effect }) {
  if ("run" in effect) {
    return (
      <Link to="/runs/$runId" params={{ runId: effect.run }}>
        {m.receipt.toRun(shortId(effect.run))}
      </Link>
    );
  }
  if (effect.page === "runs") return <Link to="/runs">{m.runs.title}</Link>;
  return (
    <Link to="/admin/$part" params={{ part: effect.page }}>
      {m.admin.parts[effect.page]}
    </Link>
  );
}

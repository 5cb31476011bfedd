import { useEffect, useState } from "react";
import { RunMovedDocument, type RunMovedQuery } from "../api/gen/graphql";
import { instant } from "../api/model";
import { request } from "../api/request";
import { m } from "../messages";
import { runLook, stepLook } from "../ui/look";
import { Time } from "../ui/Time";
import css from "./ConfirmDialog.module.css";

const LISTED = 6;

/** What happened to the run between the position that was read and the one it is at. */
export function Moved({ runId, from, to }: { runId: string; from: number; to: number }) {
  const [diff, setDiff] = useState<RunMovedQuery["runDiff"]>(null);
  useEffect(() => {
    const abort = new AbortController();
    request(RunMovedDocument, { runId, a: from, b: to }, abort.signal)
      .then(({ runDiff }) => setDiff(runDiff))
      .catch(() => {});
    return () => abort.abort();
  }, [runId, from, to]);
  const before = diff && runLook(diff.from).word;
  const after = diff && runLook(diff.to).word;
  return (
    <div className={css.moved} data-testid="moved">
      <p>{m.confirm.moved(from, to)}</p>
      {diff && (
        <ul className={css.list}>
          {before !== after && <li>{m.confirm.became(before ?? "", after ?? "")}</li>}
          {diff.decisions.slice(-LISTED).map((event) => (
            <li key={event.runSeq}>
              {event.eventType} {event.emittedBy && m.receipt.by(event.emittedBy)}, <Time at={instant(event.persistedAt)} format="precise" />, seq {event.runSeq}
            </li>
          ))}
          {diff.steps.slice(0, LISTED).map((step) => (
            <li key={step.stepId}>
              <strong>{step.stepId}</strong>: {step.from ? stepLook(step.from).word : m.status.pending} → {stepLook(step.to).word}
            </li>
          ))}
          {diff.steps.length > LISTED && <li>{m.confirm.moreChanges(diff.steps.length - LISTED)}</li>}
        </ul>
      )}
    </div>
  );
}

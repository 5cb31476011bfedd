import { Copy } from "lucide-react";
import { m } from "../messages";
import { Button } from "../ui/Button";
import { plural } from "../ui/format";
import { runLook, stepLook } from "../ui/look";
import css from "./ConfirmDialog.module.css";
import type { Preview } from "./usePreview";

const LISTED = 5;

/** What the server says would happen, most telling first, never more than fits. */
export function PreviewList({ preview }: { preview: Preview }) {
  const { outcome, code, reason, status, changes, blocked, warnings } = preview;
  const more = changes.length - LISTED;
  return (
    <div data-testid="preview" data-outcome={outcome}>
      <ul className={css.list}>
        <li>
          {reason ?? m.confirm.outcome[outcome]} {outcome !== "APPLY" && code && <code>{code}</code>}
        </li>
        {changes.slice(0, LISTED).map((change) => (
          <li key={`${change.stepId} ${change.kind}`}>
            <strong>{change.stepId}</strong>: {change.from !== change.to && `${stepWord(change.from)} → ${stepWord(change.to)}. `}
            {change.why}
          </li>
        ))}
        {more > 0 && <li>{m.confirm.moreChanges(more)}</li>}
        {blocked.length > 0 && <li>{m.confirm.blocked(plural(blocked.length, "step"), blocked.slice(0, LISTED).join(", "))}</li>}
        {status !== null && <li>{m.confirm.after(runLook({ status, statusRaw: status, substatus: null, pause: null }).word)}</li>}
      </ul>
      {warnings.length > 0 && (
        <ul className={css.warnings}>
          {warnings.map((warning) => (
            <li key={warning}>{warning}</li>
          ))}
        </ul>
      )}
    </div>
  );
}

function stepWord(status: Preview["changes"][number]["from"]): string {
  return stepLook({ status, statusRaw: status, pendingRetry: false }).word;
}

/** A text that asks somebody who could. */
export function CopyRequest({ text }: { text: string }) {
  return (
    <Button kind="quiet" onClick={() => void navigator.clipboard.writeText(text)}>
      <Copy size={14} aria-hidden="true" /> {m.denied.copyRequest}
    </Button>
  );
}

import { m } from "../messages";
import { plural } from "../format/format";
import { runLook, stepLook } from "../status/look";
import type { Preview } from "./usePreview";

const LISTED = 5;

export interface PreviewLine {
  /** The step that it is about, when it is about one. */
  stepId: string | null;
  text: string;
}

/**
 * What would come of an action, behind the server's sentence on it: most telling first, never more than fits, and nothing of
 * what that sentence says already. `stepId` is the step that is acted on, `next` the name of its next attempt.
 */
export function previewLines(
  { outcome, reason, status, changes, blocked }: Preview,
  stepId: string | null,
  next: string | null,
): PreviewLine[] {
  const own = changes.filter((change) => change.stepId === stepId);
  const shown = [...own, ...changes.filter((change) => change.stepId !== stepId)].slice(0, LISTED);
  return [
    ...shown.map((change) => {
      const moves = change.from === change.to ? null : `${stepWord(change.from)} → ${stepWord(change.to)}.`;
      // Why the step itself moves is what the sentence is about.
      const why = change.stepId === stepId && moves !== null && reason !== null ? null : change.why;
      return { stepId: change.stepId, text: [moves, why].filter((part) => part !== null).join(" ") };
    }),
    ...(changes.length > LISTED ? [ofRun(m.confirm.moreChanges(changes.length - LISTED))] : []),
    ...(outcome === "APPLY" && next !== null ? [ofRun(m.confirm.nextAttempt(next))] : []),
    ...(blocked.length > 0
      ? [ofRun(m.confirm.blocked(plural(blocked.length, "step"), blocked.slice(0, LISTED).join(", ")))]
      : []),
    ...(status !== null && !reason?.includes(status)
      ? [ofRun(afterwards(status, reason?.includes("CANCELLED") === true))]
      : []),
  ];
}

/** A run that is stopped ends when the last of its steps has. */
function afterwards(status: NonNullable<Preview["status"]>, stopped: boolean): string {
  const { word } = runLook({ status, statusRaw: status, substatus: null, pause: null });
  return stopped ? m.confirm.untilStopped(word) : m.confirm.after(word);
}

function ofRun(text: string): PreviewLine {
  return { stepId: null, text };
}

function stepWord(status: Preview["changes"][number]["from"]): string {
  return stepLook({ status, statusRaw: status, pendingRetry: false }).word;
}

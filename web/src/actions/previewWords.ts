import { m } from "../messages";
import { plural } from "../format/format";
import { runLook, stepLook } from "../status/look";
import type { Preview } from "./usePreview";

const LISTED = 5;

export interface PreviewLine {
  /** The step of the line; null for a line about the run. */
  stepId: string | null;
  text: string;
}

/**
 * The lines that follow the server's sentence in a preview: the step itself first, at most five changes, and nothing
 * that the sentence already says. `stepId` is the step that the action is on, `next` the name of its next attempt.
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
      // The server's sentence already says why the step itself changes.
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

/** A stopped run ends when its last step ends. */
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

import { m } from "../messages";
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
 * that the sentence already says. `stepId` is the step that the action is on.
 */
export function previewLines(
  { reason, status, changes, blocked }: Preview,
  stepId: string | null,
  nameOf: (stepId: string) => string = (id) => id,
): PreviewLine[] {
  const named = (steps: readonly string[]): string => steps.slice(0, LISTED).map(nameOf).join(", ");
  if (stepId === null && changes.length > 0 && changes.every(({ kind }) => kind === "RERUN" || kind === "REUSE"))
    return [
      ...rerunLines(changes, named),
      ...(status === "RUNNING"
        ? [ofRun(m.confirm.newRun)]
        : status === "PENDING"
          ? [ofRun(m.confirm.newRunWaits)]
          : resultLines(status, reason)),
    ];
  const own = changes.filter((change) => change.stepId === stepId);
  const shown = [...own, ...changes.filter((change) => change.stepId !== stepId)].slice(0, LISTED);
  return [
    ...shown.map((change) => {
      const moves = change.from === change.to ? null : `${stepWord(change.from)} → ${endWord(change)}.`;
      // The server's sentence already says why the step itself changes.
      const why = change.stepId === stepId && moves !== null && reason !== null ? null : change.why;
      return { stepId: change.stepId, text: [moves, why].filter((part) => part !== null).join(" ") };
    }),
    ...(changes.length > LISTED ? [ofRun(m.confirm.moreChanges(changes.length - LISTED))] : []),
    ...(blocked.length > 0 ? [ofRun(m.confirm.blocked(blocked.length, named(blocked)))] : []),
    ...resultLines(status, reason),
  ];
}

/**
 * The server's sentence with the names of steps in place of their ids. An id that may be a word of the sentence, such as
 * run, is one only in quotes.
 */
export function withNames(text: string, steps: ReadonlySet<string>, nameOf: (stepId: string) => string): string {
  return text.replaceAll(/"([^"]+)"|[\w.-]*\w/g, (whole, quoted?: string) => {
    const id = quoted ?? whole;
    return steps.has(id) && (quoted !== undefined || /[^a-z]/i.test(id)) ? nameOf(id) : whole;
  });
}

/** A rerun in two numbers, then the steps: those that run again, and those whose results are kept. */
function rerunLines(changes: Preview["changes"], named: (steps: readonly string[]) => string): PreviewLine[] {
  const of = (kind: string): string[] => changes.filter((change) => change.kind === kind).map(({ stepId }) => stepId);
  const [again, kept] = [of("RERUN"), of("REUSE")];
  return [
    ofRun(m.confirm.rerun(again.length, kept.length)),
    ...(again.length > 0 ? [ofRun(m.confirm.runsAgain(named(again), Math.max(0, again.length - LISTED)))] : []),
    ...(kept.length > 0 ? [ofRun(m.confirm.keeps(named(kept), Math.max(0, kept.length - LISTED)))] : []),
  ];
}

/** The status that the action leads to, unless the server's sentence says it. */
function resultLines(status: Preview["status"], reason: string | null): PreviewLine[] {
  if (status === null) return [];
  if (status === "PENDING") return [ofRun(m.confirm.pending)];
  const word = runLook({ status, statusRaw: status, substatus: null, pause: null }).word.toLowerCase();
  return reason?.includes(`run is ${word}`) ? [] : [ofRun(m.confirm.result(word))];
}

function ofRun(text: string): PreviewLine {
  return { stepId: null, text };
}

/** The log says FAILED of a step that a cancel stops, but nothing failed. */
function endWord({ kind, to }: Preview["changes"][number]): string {
  return kind === "CANCEL"
    ? runLook({ status: "CANCELLED", statusRaw: "", substatus: null, pause: null }).word
    : stepWord(to);
}

function stepWord(status: Preview["changes"][number]["from"]): string {
  return stepLook({ status, statusRaw: status, pendingRetry: false }).word;
}

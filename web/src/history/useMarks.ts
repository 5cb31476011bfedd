// The moments of a log that one looks for: failures, retries, and what people did.
import { RunMarksDocument } from "../api/gen/graphql";
import { useQuery } from "../api/useQuery";

export const MARK_KINDS = ["failure", "retry", "person"] as const;
export type MarkKind = (typeof MARK_KINDS)[number];

export interface Mark {
  seq: number;
  kind: MarkKind;
  stepId: string | null;
}

interface MarkedEvent {
  runSeq: number;
  eventType: string;
  stepId: string | null;
  payload: unknown;
}

/** As many of the newest events as one answer of the API holds. */
const MOST = 200;
const FAILURES: ReadonlySet<string> = new Set(["StepFailed", "RunFailed"]);
const TYPES = [...FAILURES, "SignalAccepted"];

export function marksOf(events: readonly MarkedEvent[]): readonly Mark[] {
  return events.map(({ runSeq, eventType, stepId, payload }) => {
    const signal = (payload ?? {}) as { signalType?: string; stepId?: string };
    const kind = FAILURES.has(eventType) ? "failure" : signal.signalType === "RETRY_STEP" ? "retry" : "person";
    return { seq: runSeq, kind, stepId: stepId ?? signal.stepId ?? null };
  });
}

/** The share of the log within which the slider snaps to a mark. */
const NEAR = 0.006;

/** The mark near a position that the slider was moved to. A move by one position stays where it is. */
export function snapped(marks: readonly Mark[], to: number, from: number, head: number): number {
  if (Math.abs(to - from) <= 1) return to;
  const near = marks.toSorted((a, b) => Math.abs(a.seq - to) - Math.abs(b.seq - to))[0];
  return near && Math.abs(near.seq - to) <= head * NEAR ? near.seq : to;
}

const NONE: readonly Mark[] = [];

/** The marks of a run, read when the line is opened and again while it grows. */
export function useMarks(runId: string, head: number, wanted: boolean): readonly Mark[] {
  // Read again for each part of 50 events, not for each event.
  const { last } = useQuery(
    RunMarksDocument,
    wanted ? { runId, types: TYPES, last: MOST } : null,
    ({ run }) => marksOf((run?.events.edges ?? []).map(({ node }) => node)),
    { refetchOn: Math.floor(head / 50) },
  );
  return last ?? NONE;
}

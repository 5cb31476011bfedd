import { StepMediansDocument } from "../api/gen/graphql";
import type { Step } from "../api/model";
import { queryOnce } from "../api/useQuery";
import { STOPPED } from "../status/look";

export type Medians = ReadonlyMap<string, number>;

/**
 * The median durations of the steps in earlier runs, in milliseconds by stepId. They do not change while the run moves.
 * Read for all steps at once, because one step costs the server as much.
 */
export const useMedians = queryOnce(
  StepMediansDocument,
  ({ run }): Medians =>
    new Map(
      (run?.steps ?? []).flatMap(({ stepId, medianMs }) => (medianMs === null ? [] : [[stepId, medianMs] as const])),
    ),
);

/** A difference below this time, or below this part of the median, does not count. */
const SAME_MS = 1_000;
const SAME_PART = 0.1;

export type Pace = { kind: "slower" | "faster"; byMs: number; times: number } | { kind: "usual" };

/**
 * Compares a step's latest attempt with the median. A running attempt can only be slower, and a failed one is never
 * called faster. Null when they cannot be compared.
 */
export function paceOf(
  step: Pick<Step, "status" | "durationMs" | "startedAt"> &
    Partial<Pick<Step, "error" | "keptFrom" | "engineAttemptId">>,
  median: number | undefined,
  now: number,
): Pace | null {
  if (step.keptFrom) return null;
  // The time of several tries and of the pauses between them is not that of one.
  if ((step.engineAttemptId ?? 1) > 1) return null;
  // A step that somebody stopped says nothing about its speed.
  if (step.status === "FAILED" && STOPPED.has(step.error?.code ?? "")) return null;
  if (median === undefined || step.startedAt === null || step.status === "SKIPPED" || step.status === "PENDING")
    return null;
  const took = step.durationMs ?? (step.status === "RUNNING" ? Math.max(0, now - step.startedAt) : null);
  if (took === null) return null;
  const byMs = took - median;
  if (Math.abs(byMs) < Math.max(SAME_MS, median * SAME_PART))
    return step.status === "SUCCESS" ? { kind: "usual" } : null;
  if (byMs < 0) return step.status === "SUCCESS" ? { kind: "faster", byMs: -byMs, times: took / median } : null;
  return { kind: "slower", byMs, times: median === 0 ? Number.POSITIVE_INFINITY : took / median };
}

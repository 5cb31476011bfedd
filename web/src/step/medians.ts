import { StepMediansDocument } from "../api/gen/graphql";
import type { Step } from "../api/model";
import { queryOnce } from "../api/useQuery";

export type Medians = ReadonlyMap<string, number>;

/**
 * How long the steps of a run mostly take, in milliseconds by stepId: of runs before this one, so they do not move with it. Read
 * for all steps, because the server reads the same for one of them.
 */
export const useMedians = queryOnce(
  StepMediansDocument,
  ({ run }): Medians =>
    new Map(
      (run?.steps ?? []).flatMap(({ stepId, medianMs }) => (medianMs === null ? [] : [[stepId, medianMs] as const])),
    ),
);

/** A difference that is smaller, or a smaller part of the median, is none. */
const SAME_MS = 1_000;
const SAME_PART = 0.1;

export type Pace = { kind: "slower" | "faster"; byMs: number; times: number } | { kind: "usual" };

/**
 * How a step's latest attempt compares with the median. One that has not ended can only be known to be slower, and one that
 * failed was not fast. Null when there is nothing to say.
 */
export function paceOf(
  step: Pick<Step, "status" | "durationMs" | "startedAt">,
  median: number | undefined,
  now: number,
): Pace | null {
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

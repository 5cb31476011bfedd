import type { RunRow, Step } from "../api/model";

/** Above this number of steps a run opens as a mosaic. */
export const GRAPH_STEPS = 300;

/** The groups of steps by status; those that need a person come first. */
export const STEP_GROUPS = ["failed", "waiting", "running", "pending", "skipped", "ok"] as const;
export type StepGroup = (typeof STEP_GROUPS)[number];
export type Tally = Readonly<Record<StepGroup, number>>;

export const EMPTY_TALLY: Tally = { failed: 0, waiting: 0, running: 0, pending: 0, skipped: 0, ok: 0 };

type Waits = Pick<RunRow, "status" | "substatus" | "stepCounts"> & { pause: { draining: number } | null };

/**
 * The number of steps that wait for a person; the API counts them as running. `ran` is the number that really runs;
 * without it the result is 0 when only some may wait.
 */
export function manualOf(
  { status, substatus, pause, stepCounts: { running } }: Waits,
  ran: number | null = null,
): number {
  if (substatus === "WAITING_MANUAL") return running;
  if (status === "PAUSED") return running - (pause?.draining ?? 0);
  return ran === null ? 0 : Math.max(0, running - ran);
}

/** The group of a step. `waiting` is for a person, for a requested retry, or for an unknown status. */
export function stepGroup(step: Pick<Step, "status" | "substatus" | "pendingRetry">): StepGroup {
  if (step.pendingRetry) return "waiting";
  switch (step.status) {
    case "FAILED":
      return "failed";
    case "RUNNING":
      return step.substatus === "WAITING_MANUAL" ? "waiting" : "running";
    case "PENDING":
      return "pending";
    case "SUCCESS":
      return "ok";
    case "SKIPPED":
      return "skipped";
    default:
      return "waiting";
  }
}

import type { RunRow, Step } from "../api/model";

/** Where a step stands, the ones that need a person first. */
export const STEP_GROUPS = ["failed", "waiting", "running", "pending", "skipped", "ok"] as const;
export type StepGroup = (typeof STEP_GROUPS)[number];
export type Tally = Readonly<Record<StepGroup, number>>;

export const EMPTY_TALLY: Tally = { failed: 0, waiting: 0, running: 0, pending: 0, skipped: 0, ok: 0 };

type Waits = Pick<RunRow, "status" | "substatus" | "stepCounts"> & { pause: { draining: number } | null };

/** How many of the steps that the API counts as running wait for a person; where only some may, without the steps (`ran` of them run) nobody knows, and it is 0. */
export function manualOf(
  { status, substatus, pause, stepCounts: { running } }: Waits,
  ran: number | null = null,
): number {
  if (substatus === "WAITING_MANUAL") return running;
  if (status === "PAUSED") return running - (pause?.draining ?? 0);
  return ran === null ? 0 : Math.max(0, running - ran);
}

/** `waiting` is for a person, for a retry that was asked for, or for someone to say what an unknown status means. */
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

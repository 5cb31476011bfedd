// What may be done to many runs at once.
import type { BulkActionInput, BulkFieldsFragment, RunRowFragment } from "../api/gen/graphql";

export const BULK_ACTIONS = ["PAUSE", "RESUME", "RETRY_STEP", "CANCEL", "EMERGENCY_STOP"] as const;
export type BulkKind = (typeof BULK_ACTIONS)[number];

/** One action, without its reason. */
export interface BulkAction {
  kind: BulkKind;
  /** Of RETRY_STEP. */
  stepId: string;
  /** Retry although the policy says no; stop without the engine's cooperation. */
  force: boolean;
}

export function toBulkInput({ kind, stepId, force }: BulkAction, reason: string): BulkActionInput {
  switch (kind) {
    case "PAUSE":
      return { signal: { pause: { reason } } };
    case "RESUME":
      return { signal: { resume: { reason } } };
    case "RETRY_STEP":
      return { signal: { retryStep: { stepId, reason, force } } };
    case "CANCEL":
      return { cancel: { reason } };
    case "EMERGENCY_STOP":
      return { signal: { emergencyStop: { reason, forceKill: force } } };
  }
}

/** The action of a bulk, to be sent again; null for one that this page cannot send. */
export function actionOf(bulk: Pick<BulkFieldsFragment, "type" | "stepId" | "payload">): BulkAction | null {
  const kind = BULK_ACTIONS.find((known) => known === bulk.type);
  if (!kind) return null;
  const payload = typeof bulk.payload === "object" && bulk.payload !== null ? bulk.payload : {};
  const force =
    ("force" in payload && payload.force === true) || ("forceKill" in payload && payload.forceKill === true);
  return { kind, stepId: bulk.stepId ?? "", force };
}

/** Whether it stops work that nobody can take up again. */
export function irreversible(kind: BulkKind): boolean {
  return kind === "CANCEL" || kind === "EMERGENCY_STOP";
}

/** The step that failed in all of the runs, when it is the same; else none. */
export function commonFailure(runs: readonly Pick<RunRowFragment, "rootCause">[]): string {
  const steps = new Set(runs.map((run) => run.rootCause?.stepId ?? ""));
  return steps.size === 1 ? ([...steps][0] ?? "") : "";
}

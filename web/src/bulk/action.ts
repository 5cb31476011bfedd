// The actions that a bulk can send.
import type { BulkActionInput, BulkFieldsFragment, RunRowFragment } from "../api/gen/graphql";

export const BULK_ACTIONS = ["PAUSE", "RESUME", "RETRY_STEP", "CANCEL", "EMERGENCY_STOP"] as const;
export type BulkKind = (typeof BULK_ACTIONS)[number];

/** An action without its reason. */
export interface BulkAction {
  kind: BulkKind;
  /** For RETRY_STEP only. */
  stepId: string;
  /** Retries against the policy; stops without waiting for the engine. */
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

/** The action of an earlier bulk; null when this page cannot send it. */
export function actionOf(bulk: Pick<BulkFieldsFragment, "type" | "stepId" | "payload">): BulkAction | null {
  const kind = BULK_ACTIONS.find((known) => known === bulk.type);
  if (!kind) return null;
  const payload = typeof bulk.payload === "object" && bulk.payload !== null ? bulk.payload : {};
  const force =
    ("force" in payload && payload.force === true) || ("forceKill" in payload && payload.forceKill === true);
  return { kind, stepId: bulk.stepId ?? "", force };
}

/** Whether the action ends runs for good. */
export function irreversible(kind: BulkKind): boolean {
  return kind === "CANCEL" || kind === "EMERGENCY_STOP";
}

/** The step that failed in all of the runs; empty when they differ. */
export function commonFailure(runs: readonly Pick<RunRowFragment, "rootCause">[]): string {
  const steps = new Set(runs.map((run) => run.rootCause?.stepId ?? ""));
  return steps.size === 1 ? ([...steps][0] ?? "") : "";
}

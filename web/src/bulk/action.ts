// The actions that a bulk can do.
import { type RerunFrom, rerunFrom, rerunParams } from "../actions/draft";
import type { BulkActionInput, BulkFieldsFragment, RunRowFragment } from "../api/gen/graphql";
import { m } from "../messages";

export const BULK_ACTIONS = ["RERUN", "PAUSE", "RESUME", "RETRY_STEP", "CANCEL", "EMERGENCY_STOP"] as const;
export type BulkKind = (typeof BULK_ACTIONS)[number];

/** An action without its reason. */
export interface BulkAction {
  kind: BulkKind;
  /** For RETRY_STEP, and for RERUN from one step. */
  stepId: string;
  /** Retries against the policy; stops without waiting for the engine. */
  force: boolean;
  /** For RERUN only. */
  from: RerunFrom;
  /** The parameters of the new runs as JSON text, for RERUN only; empty keeps those of each run. */
  params: string;
  /** Reruns also runs that have a newer rerun, for RERUN only. */
  alreadyRerun: boolean;
}

export function newAction(kind: BulkKind, stepId = ""): BulkAction {
  return { kind, stepId, force: false, from: "failed", params: "", alreadyRerun: false };
}

/** The input for the server, or the sentence that says which part is missing. */
export function toBulkInput(action: BulkAction, reason: string): { input: BulkActionInput } | { missing: string } {
  const { kind, stepId, force, from } = action;
  switch (kind) {
    case "PAUSE":
      return { input: { signal: { pause: { reason } } } };
    case "RESUME":
      return { input: { signal: { resume: { reason } } } };
    case "RETRY_STEP":
      return stepId === ""
        ? { missing: m.confirm.stepMissing }
        : { input: { signal: { retryStep: { stepId, reason, force } } } };
    case "CANCEL":
      return { input: { cancel: { reason } } };
    case "EMERGENCY_STOP":
      return { input: { signal: { emergencyStop: { reason, forceKill: force } } } };
    case "RERUN": {
      const params = rerunParams(action.params);
      if ("missing" in params) return { missing: m.bulk.correctParams };
      if (from === "step" && stepId === "") return { missing: m.confirm.stepMissing };
      return {
        input: {
          rerun: { from: rerunFrom(from, stepId), params: params.value, reason, alreadyRerun: action.alreadyRerun },
        },
      };
    }
  }
}

/** The action of an earlier bulk; null when this page cannot do it. */
export function actionOf(bulk: Pick<BulkFieldsFragment, "action" | "stepId" | "payload">): BulkAction | null {
  const kind = BULK_ACTIONS.find((known) => known === bulk.action);
  if (!kind) return null;
  const payload: Record<string, unknown> =
    typeof bulk.payload === "object" && bulk.payload !== null ? { ...bulk.payload } : {};
  const made = newAction(kind, bulk.stepId ?? "");
  if (kind !== "RERUN") return { ...made, force: payload["force"] === true || payload["forceKill"] === true };
  const from = typeof payload["from"] === "object" && payload["from"] !== null ? { ...payload["from"] } : {};
  const steps: unknown = "steps" in from ? from.steps : null;
  return {
    ...made,
    from: "start" in from ? "start" : Array.isArray(steps) ? "step" : "failed",
    stepId: Array.isArray(steps) && typeof steps[0] === "string" ? steps[0] : "",
    alreadyRerun: payload["alreadyRerun"] === true,
    params: payload["params"] === undefined || payload["params"] === null ? "" : JSON.stringify(payload["params"]),
  };
}

/** Whether the action ends runs for good. */
export function irreversible(kind: BulkKind): boolean {
  return kind === "CANCEL" || kind === "EMERGENCY_STOP";
}

type Selected = Pick<RunRowFragment, "status" | "failedSteps">;

/** Whether a run has ended, so that only a rerun applies to it. */
export function hasEnded({ status }: Pick<Selected, "status">): boolean {
  return status === "COMPLETED" || status === "FAILED" || status === "CANCELLED";
}

/** Whether the action can apply to a run as the list shows it. */
export function applies(kind: BulkKind, run: Selected): boolean {
  switch (kind) {
    case "RERUN":
      return hasEnded(run);
    case "PAUSE":
      return run.status === "RUNNING";
    case "RESUME":
      return run.status === "PAUSED";
    case "RETRY_STEP":
      return !hasEnded(run) && run.failedSteps > 0;
    case "CANCEL":
    case "EMERGENCY_STOP":
      return !hasEnded(run);
  }
}

/** The step that failed in all of the runs; empty when they differ. */
export function commonFailure(runs: readonly Pick<RunRowFragment, "rootCause">[]): string {
  const steps = new Set(runs.map((run) => run.rootCause?.stepId ?? ""));
  return steps.size === 1 ? ([...steps][0] ?? "") : "";
}

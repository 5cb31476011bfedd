import type { Action } from "../api/gen/graphql";
import { newId } from "../api/newId";

/** The actions that a run's page can send. */
export const SENDABLE = [
  "RETRY_STEP",
  "SKIP_STEP",
  "COMPLETE_MANUAL_STEP",
  "INJECT_OVERRIDE",
  "UPDATE_TARGET",
  "PAUSE",
  "RESUME",
  "APPROVE",
  "UPDATE_PARAMS",
  "ESCALATE_ALERT",
  "RERUN",
  "CANCEL",
  "EMERGENCY_STOP",
] as const satisfies readonly Action[];
export type Sendable = (typeof SENDABLE)[number];

/** An action that a person wants to send. It keeps one signalId, however often it is sent. */
export interface Intent {
  action: Sendable;
  runId: string;
  stepId: string | null;
  logicalAttemptId: number | null;
  signalId: string;
}

export function newIntent(
  action: Sendable,
  runId: string,
  stepId: string | null,
  logicalAttemptId: number | null,
): Intent {
  return { action, runId, stepId, logicalAttemptId, signalId: `ui-${newId()}` };
}

// The form of an action, and the input of the API that it gives.
import type { ActionInput, AlertLevel, Decision, ManualOutcome, RerunFromInput, SignalInput } from "../api/gen/graphql";
import { m } from "../messages";
import type { Intent } from "./intent";

export const RERUN_FROM = ["failed", "step", "start"] as const;
export type RerunFrom = (typeof RERUN_FROM)[number];

export interface Draft {
  reason: string;
  /** Retries against the policy; stops without waiting for the engine. */
  force: boolean;
  /** Parameters or inputs to change, as JSON text. */
  patch: string;
  database: string;
  schema: string;
  level: AlertLevel;
  from: RerunFrom;
  /** The step to run again, for a rerun from one step. */
  step: string;
  decision: Decision;
  outcome: ManualOutcome;
  /** One address on each line. */
  evidence: string;
}

export const EMPTY_DRAFT: Draft = {
  reason: "",
  force: false,
  patch: "",
  database: "",
  schema: "",
  level: "MEDIUM",
  from: "failed",
  step: "",
  decision: "APPROVE",
  outcome: "SUCCEEDED",
  evidence: "",
};

/** The input for the server, or the sentence that says which part is missing. */
export type BuiltInput = { input: ActionInput } | { missing: string };

/** Builds the input of an action from its form. `token` is needed to complete a manual step. */
export function buildInput(intent: Intent, draft: Draft, token: string | null): BuiltInput {
  const { action, runId, signalId } = intent;
  const stepId = intent.stepId ?? "";
  const reason = draft.reason.trim() === "" ? null : draft.reason.trim();
  const signal = (input: SignalInput): BuiltInput => ({ input: { signal: { runId, signal: input } } });
  switch (action) {
    case "PAUSE":
      return signal({ pause: { reason } });
    case "RESUME":
      return signal({ resume: { reason } });
    case "RETRY_STEP":
      return signal({
        retryStep: { stepId, reason, force: draft.force, expectedLogicalAttemptId: intent.logicalAttemptId },
      });
    case "SKIP_STEP":
      return signal({ skipStep: { stepId, reason } });
    case "ESCALATE_ALERT":
      return signal({ escalateAlert: { level: draft.level, note: reason } });
    case "EMERGENCY_STOP":
      return reason === null
        ? { missing: m.confirm.reasonRequired }
        : signal({ emergencyStop: { reason, forceKill: draft.force } });
    case "UPDATE_PARAMS": {
      const patch = object(draft.patch);
      return "missing" in patch
        ? patch
        : signal({ updateParams: { stepId: intent.stepId, newParams: patch.value, reason } });
    }
    case "INJECT_OVERRIDE": {
      const patch = object(draft.patch);
      if ("missing" in patch) return patch;
      return reason === null
        ? { missing: m.confirm.reasonRequired }
        : signal({ injectOverride: { stepId, override: patch.value, reason } });
    }
    case "UPDATE_TARGET": {
      const newTarget = {
        ...(draft.database ? { destinationDb: draft.database } : {}),
        ...(draft.schema ? { schema: draft.schema } : {}),
      };
      if (Object.keys(newTarget).length === 0) return { missing: m.confirm.targetMissing };
      return reason === null
        ? { missing: m.confirm.reasonRequired }
        : signal({ updateTarget: { stepId, newTarget, reason } });
    }
    case "CANCEL":
      return { input: { cancel: { runId } } };
    case "RERUN": {
      const first = draft.step.trim() === "" ? stepId : draft.step.trim();
      const params = rerunParams(draft.patch);
      // The form says at the field what is wrong.
      if ("missing" in params) return { missing: m.confirm.correctParams };
      if (draft.from === "step" && first === "") return { missing: m.confirm.stepMissing };
      const from = rerunFrom(draft.from, first);
      return { input: { rerun: { runId, runRequestId: signalId, reason, params: params.value, from } } };
    }
    case "APPROVE":
      return draft.decision === "REJECT" && reason === null
        ? { missing: m.confirm.reasonRequired }
        : { input: { approve: { runId, decision: draft.decision } } };
    case "COMPLETE_MANUAL_STEP": {
      if (token === null) return { missing: m.confirm.taskGone };
      const evidenceRefs = draft.evidence.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]));
      return {
        input: { completeManualStep: { runId, stepId, token, outcome: draft.outcome, notes: reason, evidenceRefs } },
      };
    }
  }
}

/** The value that the server shows in place of one that looks like a secret. */
const HIDDEN = '"***"';

/** The parameters of a rerun: null keeps those of the run, and so does an empty text. */
export function rerunParams(text: string): { value: unknown } | { missing: string } {
  if (text.trim() === "") return { value: null };
  const params = object(text);
  return "value" in params && JSON.stringify(params.value).includes(HIDDEN)
    ? { missing: m.confirm.hiddenParam }
    : params;
}

/** Returns the error of a rerun's parameters, or null when they are valid. */
export function problemOfParams(text: string): string | null {
  const params = rerunParams(text);
  return "missing" in params ? params.missing : null;
}

/** What runs again, as the API takes it. */
export function rerunFrom(from: RerunFrom, step: string): RerunFromInput {
  return from === "start" ? { start: true } : from === "step" ? { steps: [step] } : { failed: true };
}

/** Reads a JSON object that a person typed, or says what is wrong with it. */
export function object(text: string): { value: unknown } | { missing: string } {
  if (text.trim() === "") return { missing: m.confirm.patchMissing };
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? { value }
      : { missing: m.confirm.patchObject };
  } catch (cause) {
    return { missing: `${m.confirm.notJson} ${cause instanceof Error ? cause.message : String(cause)}` };
  }
}

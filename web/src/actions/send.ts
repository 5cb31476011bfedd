import {
  type ActionInput,
  ApproveDocument,
  CancelRunDocument,
  type ChangeFieldsFragment,
  CompleteStepDocument,
  type Decision,
  type ManualOutcome,
  RerunRunDocument,
  SignalRunDocument,
} from "../api/gen/graphql";
import { type Signal, toSignal } from "../api/model";
import { request } from "../api/request";
import type { Draft } from "./draft";
import type { Intent } from "./intent";

/** The answer to an action: a receipt, a new run, or neither for a decision that the run itself shows. */
export interface Answer {
  signal: Signal | null;
  newRunId: string | null;
  /** The decision about a run that waits for approval. */
  decision?: Decision;
  /** The outcome that the person gave to a manual step. */
  outcome?: ManualOutcome;
  /** The receipt of the decision. */
  change?: ChangeFieldsFragment | null;
}

/**
 * Sends a previewed action. `reviewed` is the position that the person has read. It is sent only for actions on a step
 * or on the status: for those on the whole run, any progress would be a conflict and a busy run could never be stopped
 * (contract T193). Throws ApiError.
 */
export async function send(intent: Intent, input: ActionInput, draft: Draft, reviewed: number): Promise<Answer> {
  const { action, runId, signalId } = intent;
  const expectedRunSeq = ["PAUSE", "RESUME", "RETRY_STEP", "SKIP_STEP"].includes(action) ? reviewed : null;
  const reason = draft.reason.trim() === "" ? null : draft.reason.trim();
  if (input.signal) {
    const { signalRun } = await request(SignalRunDocument, {
      input: { runId, signalId, expectedRunSeq, signal: input.signal.signal },
    });
    return { signal: toSignal(signalRun.signal), newRunId: null };
  }
  if (input.completeManualStep) {
    const { completeManualStep } = await request(CompleteStepDocument, {
      input: { ...input.completeManualStep, expectedRunSeq: reviewed },
    });
    const { outcome } = input.completeManualStep;
    return { signal: toSignal(completeManualStep.signal), newRunId: null, outcome };
  }
  if (input.rerun) {
    const { rerun } = await request(RerunRunDocument, { input: input.rerun });
    return { signal: null, newRunId: rerun.run.runId };
  }
  if (input.approve) {
    const { approveRun } = await request(ApproveDocument, {
      input: { runId, requestId: signalId, decision: draft.decision, reason, expectedRunSeq: reviewed },
    });
    return { signal: null, newRunId: null, decision: draft.decision, change: approveRun.change };
  }
  const { cancelRun } = await request(CancelRunDocument, { input: { runId, signalId, reason } });
  return { signal: toSignal(cancelRun.signal), newRunId: null };
}

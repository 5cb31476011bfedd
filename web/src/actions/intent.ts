import type { Action, SignalFieldsFragment } from "../api/gen/graphql";
import { CancelRunDocument, SignalRunDocument } from "../api/gen/graphql";
import type { Availability, Signal } from "../api/model";
import { toSignal } from "../api/model";
import { request } from "../api/request";
import { m } from "../messages";
import { ticking } from "../ui/format";
import type { Verdict } from "../runs/store";

/** The actions that this page can send. */
export type Sendable = Extract<Action, "PAUSE" | "RESUME" | "RETRY_STEP" | "CANCEL">;

/** What a person means to do: one intent has one signalId however often it is sent. */
export interface Intent {
  action: Sendable;
  runId: string;
  stepId: string | null;
  logicalAttemptId: number | null;
  signalId: string;
}

export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newIntent(action: Sendable, runId: string, stepId: string | null, logicalAttemptId: number | null): Intent {
  return { action, runId, stepId, logicalAttemptId, signalId: `ui-${newId()}` };
}

export interface SendOptions {
  expectedRunSeq: number;
  reason: string;
  force: boolean;
}

/** Sends the intent and returns its first receipt. Throws ApiError. */
export async function send(intent: Intent, { expectedRunSeq, reason: typed, force }: SendOptions): Promise<Signal> {
  const { runId, signalId } = intent;
  const reason = typed.trim() === "" ? null : typed.trim();
  const signal = await sendFields();
  return toSignal(signal);

  async function sendFields(): Promise<SignalFieldsFragment> {
    if (intent.action === "CANCEL") {
      // A cancel concerns the whole run, so any progress would count as a conflict (T193) and a busy
      // run could never be stopped: it is sent without the position that was read.
      const { cancelRun } = await request(CancelRunDocument, { input: { runId, signalId, reason } });
      return cancelRun.signal;
    }
    const input =
      intent.action === "PAUSE"
        ? { pause: { reason } }
        : intent.action === "RESUME"
          ? { resume: { reason } }
          : {
              retryStep: {
                stepId: intent.stepId ?? "",
                reason,
                force,
                expectedLogicalAttemptId: intent.logicalAttemptId,
              },
            };
    const { signalRun } = await request(SignalRunDocument, { input: { runId, signalId, expectedRunSeq, signal: input } });
    return signalRun.signal;
  }
}

/** Whether stopping is meant: allowed although the view is stale. */
function stops(action: Sendable): boolean {
  return action === "PAUSE" || action === "CANCEL";
}

interface Situation {
  action: Sendable;
  availability: Availability | undefined;
  verdict: Verdict;
  /** How old the view is, while it is not true. */
  ageMs: number;
  /** The newest own receipt for the same action on the same thing, if any. */
  receipt: Signal | undefined;
}

/** Why the button cannot be used now, in words, or null when it can. */
export function refusal({ action, availability, verdict, ageMs, receipt }: Situation): string | null {
  if (verdict.state === "OFFLINE") return m.denied.offline;
  if (verdict.state === "STALE" && !stops(action)) return m.denied.stale(ticking(ageMs));
  if (receipt) {
    if (receipt.decision === "ACCEPTED" && (receipt.application === "PENDING" || receipt.application === "DELIVERED")) {
      return m.denied.inFlight;
    }
    if (receipt.appliedSeq !== null && receipt.appliedSeq > verdict.seq) return m.denied.catchingUp(receipt.appliedSeq);
  }
  if (!availability) return m.denied.noAnswer;
  return explain(availability);
}

/** What the server says against an action, or null when it would take effect. */
export function explain(availability: Availability): string | null {
  const { outcome, reason, code, requiredRole, whoCould, rule } = availability;
  if (outcome === "APPLY") return null;
  const words = [
    reason ?? (outcome === "NOOP" ? m.denied.noop : outcome === "UNSUPPORTED" ? m.denied.unsupported : null),
    requiredRole && !reason?.includes(m.role[requiredRole]) ? m.denied.needs(m.role[requiredRole]) : null,
    whoCould.length > 0 ? m.denied.could(whoCould.join(", ")) : null,
    rule ? `(${rule})` : null,
    code && outcome === "REFUSED" ? `[${code}]` : null,
  ];
  return words.filter((word) => word !== null).join(" ");
}

// One action on several steps of a run: each step has a preview, an intent and a receipt of its own.
import type { Signal } from "../api/model";
import { type ApiError, toApiError } from "../api/error";
import { effectOf, type Preview } from "./usePreview";

export const SEVERAL = ["RETRY_STEP", "SKIP_STEP"] as const;
export type Several = (typeof SEVERAL)[number];

/** The most steps of one dialog: each is previewed and sent by itself. */
export const MOST_STEPS = 100;
/** Above this number of steps the person types it before anything is sent. */
export const TYPED_ABOVE = 10;

/** One of the chosen steps, with its preview and its receipt. */
export interface Part {
  stepId: string;
  /** The logical attempt that the person saw. */
  attempt: number | null;
  preview: Preview | null;
  /** Why there is no preview. */
  unasked: ApiError | null;
  /** The effect that the person has read, as text. */
  read: string | null;
  receipt: Signal | null;
  /** Why the last attempt to send gave no receipt; `at` is the position that had been read then. */
  failure: ApiError | null;
  at: number;
}

export function newPart(stepId: string, attempt: number | null): Part {
  return { stepId, attempt, preview: null, unasked: null, read: null, receipt: null, failure: null, at: 0 };
}

export type PartState = "asking" | "unasked" | "refused" | "changed" | "ready" | "failed" | "sent";

export function partState({ preview, unasked, read, receipt, failure }: Part): PartState {
  if (receipt !== null) return "sent";
  if (failure !== null) return "failed";
  if (preview === null) return unasked === null ? "asking" : "unasked";
  if (read !== null && read !== effectOf(preview)) return "changed";
  return preview.outcome === "APPLY" ? "ready" : "refused";
}

/**
 * The order in which the steps are sent. Steps are skipped from the end of the plan to its beginning: a step starts as
 * soon as the step before it is skipped, and could then no longer be skipped.
 */
export function inOrder(action: Several, stepIds: ReadonlySet<string>, plan: readonly string[]): string[] {
  const ids = plan.filter((id) => stepIds.has(id));
  return action === "SKIP_STEP" ? ids.toReversed() : ids;
}

/** Returns the part with a newer preview. The effect that was read first stays. */
export function previewed(part: Part, preview: Preview): Part {
  return { ...part, preview, unasked: null, read: part.read ?? effectOf(preview) };
}

/** Forgets the preview and the effect that was read, because the input has changed. */
export function renewed(part: Part): Part {
  return part.receipt !== null ? part : { ...part, preview: null, unasked: null, read: null };
}

/** Returns the part with its receipt or its failure. A failed part needs a new preview. */
export function answered(part: Part, came: Pick<Part, "receipt" | "failure">): Part {
  return came.failure === null
    ? { ...part, ...came }
    : { ...part, ...came, at: part.preview?.basedOnSeq ?? 0, preview: null };
}

/** Marks the present preview as read, so that a failed or changed part can be sent. */
export function reviewed(part: Part): Part {
  return part.receipt !== null || part.preview === null
    ? part
    : { ...part, failure: null, read: effectOf(part.preview) };
}

/** Errors that are not about the step: the next step would get the same. */
const UNANSWERED = new Set(["NETWORK", "INTERNAL", "STORE_UNAVAILABLE", "UNAVAILABLE"]);

/** The shortest wait for a rate limit. */
const LEAST_WAIT_MS = 100;

export interface Sender {
  /** Sends one step and returns its receipt. Throws ApiError. */
  send: (part: Part) => Promise<Signal>;
  /** Reports the receipt or the failure of one step. */
  tell: (stepId: string, came: Pick<Part, "receipt" | "failure">) => void;
  /** Waits until the rate limit has passed. */
  wait: (ms: number) => Promise<void>;
}

/**
 * Sends the parts one after another, each at the position of its preview. A step that meets the rate limit is sent
 * again after the time that the server names. An error that is not about the step ends the loop; any other error ends
 * only that step.
 */
export async function sendEach(
  parts: readonly Part[],
  { send, tell, wait }: Sender,
  stopped: AbortSignal,
): Promise<void> {
  for (const part of parts) {
    let failure: ApiError | null = null;
    do {
      if (stopped.aborted) return;
      if (failure !== null) await wait(Math.max(failure.retryAfterMs ?? 0, LEAST_WAIT_MS));
      if (stopped.aborted) return;
      try {
        failure = null;
        tell(part.stepId, { receipt: await send(part), failure });
      } catch (cause) {
        failure = toApiError(cause);
      }
    } while (failure?.code === "SIGNAL_RATE_LIMITED" && failure.retryAfterMs !== null);
    if (failure === null) continue;
    tell(part.stepId, { receipt: null, failure });
    if (UNANSWERED.has(failure.code)) return;
  }
}

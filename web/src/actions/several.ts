// One action on several steps of a run: each step has a preview, an intent and a receipt of its own.
import type { Signal } from "../api/model";
import { type ApiError, toApiError } from "../api/error";
import { effectOf, type Preview } from "./usePreview";

export const SEVERAL = ["RETRY_STEP", "SKIP_STEP"] as const;
export type Several = (typeof SEVERAL)[number];

/** How many steps one dialog takes: each is previewed and sent by itself. */
export const MOST_STEPS = 100;
/** Above this many the number is typed before anything is sent. */
export const TYPED_ABOVE = 10;

/** One of the steps that are meant, and how far it has come. */
export interface Part {
  stepId: string;
  /** The logical attempt that was looked at. */
  attempt: number | null;
  preview: Preview | null;
  /** Why there is no preview. */
  unasked: ApiError | null;
  /** The effect that the person has read, as text. */
  read: string | null;
  receipt: Signal | null;
  /** Why the last sending had no receipt, and the position that had been read then. */
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
 * The order in which the steps are sent. What is skipped goes from the end of the plan to its beginning: a step that waits
 * for another one begins as soon as that one is skipped, and could not be skipped any more.
 */
export function inOrder(action: Several, stepIds: ReadonlySet<string>, plan: readonly string[]): string[] {
  const ids = plan.filter((id) => stepIds.has(id));
  return action === "SKIP_STEP" ? ids.toReversed() : ids;
}

/** A part with a newer preview. What was read before stays what was read. */
export function previewed(part: Part, preview: Preview): Part {
  return { ...part, preview, unasked: null, read: part.read ?? effectOf(preview) };
}

/** Something else is asked: what was read before says nothing of it. */
export function renewed(part: Part): Part {
  return part.receipt !== null ? part : { ...part, preview: null, unasked: null, read: null };
}

/** What came of sending a part; one without a receipt is to be looked at again. */
export function answered(part: Part, came: Pick<Part, "receipt" | "failure">): Part {
  return came.failure === null
    ? { ...part, ...came }
    : { ...part, ...came, at: part.preview?.basedOnSeq ?? 0, preview: null };
}

/** All has been read as it stands now: what was refused or changed is offered again. */
export function reviewed(part: Part): Part {
  return part.receipt !== null || part.preview === null
    ? part
    : { ...part, failure: null, read: effectOf(part.preview) };
}

/** Answers that say nothing of the step: the next one would have the same. */
const UNANSWERED = new Set(["NETWORK", "INTERNAL", "STORE_UNAVAILABLE", "UNAVAILABLE"]);

/** A limit whose time is nearly up is waited for too. */
const LEAST_WAIT_MS = 100;

export interface Sender {
  /** Sends one step and gives its receipt. Throws ApiError. */
  send: (part: Part) => Promise<Signal>;
  /** Tells what came of one step. */
  tell: (stepId: string, came: Pick<Part, "receipt" | "failure">) => void;
  /** Waits because the server takes no more for a while. */
  wait: (ms: number) => Promise<void>;
}

/**
 * Sends the parts one after another, each at the position at which its preview was read. A step whose
 * turn comes too early by the limits of the run is sent again when the server has said; an answer that
 * says nothing of the step ends the round, any other refusal only that step.
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

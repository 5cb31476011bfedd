import type { Availability, RunHeader } from "../api/model";
import { useHeader, useRunStore, useVerdict } from "../runstate/context";
import type { RunStore, Verdict } from "../runstate/store";
import { useTick } from "../ui/Time";
import { useRunActions } from "./context";
import { useReceipts } from "../receipts/context";
import { useViewer } from "../session/viewer";
import type { Sendable } from "./intent";
import { refusal, refusalOfView } from "./refusal";

export interface Refusal {
  /** Why the action is refused now; null when it is not. */
  reason: string | null;
  availability: Availability | undefined;
}

/** Whether an action on the run or on one of its steps is refused now. */
export function useRefusal(action: Sendable, stepId: string | null): Refusal {
  const { actions } = useRunActions();
  const store = useRunStore();
  const header = useHeader();
  const verdict = useVerdict();
  const viewer = useViewer();
  useTick(1_000, store.frozen());
  const receipt = useReceipts().find(
    (signal) =>
      signal.runId === header?.runId &&
      signal.actor === viewer.principal &&
      signal.type === action &&
      (stepId === null || signal.stepId === stepId),
  );
  const availability = (stepId === null ? actions?.run : actions?.step(stepId))?.get(action);
  return { reason: refusal({ action, availability, receipt, ...viewOf(store, header, verdict) }), availability };
}

/** Whether the page's own state refuses an action; the server then judges each step by itself. */
export function useRefusalOfView(action: Sendable): string | null {
  const store = useRunStore();
  const header = useHeader();
  const verdict = useVerdict();
  useTick(1_000, store.frozen());
  return refusalOfView({ action, ...viewOf(store, header, verdict) });
}

function viewOf(
  store: RunStore,
  header: RunHeader | null,
  verdict: Verdict,
): { verdict: Verdict; ageMs: number; draining: number } {
  const draining = header?.substatus === "DRAINING" ? (header.pause?.draining ?? 0) : 0;
  return { verdict, ageMs: Math.max(0, store.clock.now() - verdict.asOf), draining };
}

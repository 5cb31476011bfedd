// What an action means for the run beyond the steps that it changes.
import type { RunHeader } from "../api/model";
import { duration } from "../format/format";
import { m } from "../messages";
import type { Sendable } from "./intent";

/** The sentences that a person must know before the action, and which the steps of its preview do not say. */
export function consequences(action: Sendable, header: RunHeader): string[] {
  const { stepCounts, rootCause, retryDeadline, retryWindowMs, failedSteps } = header;
  switch (action) {
    case "CANCEL":
    case "EMERGENCY_STOP":
      return [m.confirm.lost(stepCounts.pending, stepCounts.success)].filter((words) => words !== "");
    case "PAUSE":
      return [
        ...(rootCause && rootCause.heldSteps > 0 ? [m.confirm.held(rootCause.heldSteps)] : []),
        // The engine closes the window at RunPaused and opens a whole one at RunResumed (contract T221).
        ...(retryDeadline !== null && retryWindowMs ? [m.confirm.windowStops(duration(retryWindowMs))] : []),
      ];
    case "RESUME":
      return failedSteps > 0 && retryWindowMs ? [m.confirm.windowOpens(duration(retryWindowMs))] : [];
    default:
      return [];
  }
}

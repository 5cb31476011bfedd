// What became of a run or a step after a signal took effect.
import type { RunHeader, Signal, Step } from "../api/model";
import { duration } from "../format/format";
import { m } from "../messages";

/** Says what followed an applied signal; null while nothing has, or when the signal needs no sequel. */
export function followed(signal: Signal, header: RunHeader | null, step: Step | undefined): string | null {
  if (signal.application !== "APPLIED" || header === null || header.runSeq < (signal.appliedSeq ?? 0)) return null;
  switch (signal.type) {
    case "RETRY_STEP":
      return step ? afterRetry(step, signal.appliedSeq ?? 0) : null;
    case "SKIP_STEP":
      return step?.status === "SKIPPED" ? m.receipt.followed.skipped : null;
    case "PAUSE":
      if (header.status !== "PAUSED") return null;
      return header.substatus === "DRAINING"
        ? m.receipt.followed.draining(header.pause?.draining ?? 0)
        : m.receipt.followed.paused;
    case "RESUME":
      return header.status === "RUNNING" ? m.receipt.followed.resumed : null;
    case "CANCEL":
    case "EMERGENCY_STOP":
      return header.status === "CANCELLED" ? m.receipt.followed.cancelled : m.receipt.followed.stopping;
    default:
      return null;
  }
}

function afterRetry(step: Step, appliedSeq: number): string | null {
  if (step.changedSeq < appliedSeq) return null;
  // The attempt that this retry started: a later retry starts another.
  const own = step.attempts.find(({ startedSeq }) => startedSeq !== null && startedSeq >= appliedSeq) ?? step;
  const took = own.startedAt !== null && own.completedAt !== null ? duration(own.completedAt - own.startedAt) : null;
  switch (own.status) {
    case "RUNNING":
      return m.receipt.followed.running;
    case "FAILED":
      return m.receipt.followed.failed(took);
    case "SUCCESS":
      return m.receipt.followed.succeeded(took);
    default:
      return m.receipt.followed.waits;
  }
}

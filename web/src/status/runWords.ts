import type { RunHeader, RunRow } from "../api/model";
import { duration, ticking } from "../format/format";
import { m } from "../messages";
import { ended } from "./look";

/** The time from start to end, or to now; with "≥" while the view is stale. */
export function took(
  run: Pick<RunRow, "startedAt" | "completedAt" | "totalDurationMs">,
  now: number,
  frozen: boolean,
): string | null {
  if (run.startedAt === null) return null;
  if (run.totalDurationMs !== null) return duration(run.totalDurationMs);
  if (run.completedAt !== null) return duration(run.completedAt - run.startedAt);
  return `${frozen ? "≥ " : ""}${ticking(now - run.startedAt)}`;
}

/** Explains why the run has no steps. */
export function noSteps(header: RunHeader): string {
  return ended(header) ? m.run.neverStarted : m.run.notStarted;
}

/** Says who cancelled a run, how and why: "cancelled by ana: “wrong day”". */
export function cancelledWords({ actor, reason, code, signalType }: NonNullable<RunRow["cancellation"]>): string {
  const who = actor ?? m.run.cancelled.unknown;
  if (code === "APPROVAL_EXPIRED") return m.run.cancelled.expired(reason);
  if (code === "APPROVAL_REJECTED") return m.run.cancelled.declined(who, reason);
  return signalType === "EMERGENCY_STOP" ? m.run.cancelled.stopped(who, reason) : m.run.cancelled.by(who, reason);
}

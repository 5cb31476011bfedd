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

import type { RunHeader, RunRow } from "../api/model";
import { duration, ticking } from "../format/format";
import { m } from "../messages";
import { ended } from "./look";

/** Time from start to end, or to now; "≥" when now is not known. */
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

/** Why there is no step to show. */
export function noSteps(header: RunHeader): string {
  return ended(header) ? m.run.neverStarted : m.run.notStarted;
}

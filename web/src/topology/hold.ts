// The steps that cannot start while a failed step waits for an operator. The server counts them (RunError.heldSteps, by
// run.State.FailureHold); the page repeats the decision to name them, because an update carries only changed steps.
import type { Attempt, Step } from "../api/model";
import type { RunStore } from "../runstate/store";

export interface Hold {
  /** The failed steps that nobody has retried, in the order of the plan. */
  failed: readonly string[];
  /** The pending steps that cannot start. */
  held: ReadonlySet<string>;
  /** The held steps that need a failed one, directly or not, with the id of the first such step. */
  needs: ReadonlyMap<string, string>;
}

export const NO_HOLD: Hold = { failed: [], held: new Set(), needs: new Map() };

const known = new WeakMap<RunStore, { header: unknown; hold: Hold }>();

/** The hold of a run, computed once for each of its states. */
export function holdOf(store: RunStore): Hold {
  const header = store.header();
  if (!header || header.failedSteps === 0 || header.substatus === "COMPENSATING") return NO_HOLD;
  if (header.status !== "RUNNING" && header.status !== "PAUSED") return NO_HOLD;
  const last = known.get(store);
  if (last?.header === header) return last.hold;
  const hold = failureHold(store.order().flatMap((id) => store.step(id) ?? []));
  known.set(store, { header, hold });
  return hold;
}

export function failureHold(steps: readonly Step[]): Hold {
  const failed = steps.filter((step) => arms(step.attempts.at(-1)) && step.status === "FAILED" && !step.pendingRetry);
  if (failed.length === 0) return NO_HOLD;
  const byId = new Map(steps.map((step) => [step.stepId, step]));
  const since = armedSince(steps);
  // A step that is being decided is held, so that a cycle ends.
  const starts = new Map<string, boolean>();
  const mayStart = (step: Step): boolean => {
    const decided = starts.get(step.stepId);
    if (decided !== undefined) return decided;
    starts.set(step.stepId, false);
    let passes = false;
    for (const id of step.dependsOn) {
      const on = byId.get(id);
      if (!on) continue;
      if (on.status === "PENDING") {
        if (!mayStart(on)) return false;
        passes = true;
      } else if (on.pendingRetry) passes = true;
      // A retry that failed again holds like the first failure, although a person asked for it.
      else if (arms(on.attempts.at(-1))) return false;
      else if (passed(on, since)) passes = true;
      else if (on.status === "FAILED") return false;
    }
    starts.set(step.stepId, passes);
    return passes;
  };
  const held = new Set<string>();
  for (const step of steps) if (step.status === "PENDING" && !mayStart(step)) held.add(step.stepId);
  return { failed: failed.map(({ stepId }) => stepId), held, needs: needsOf(failed, steps) };
}

/** The pending steps behind the failed ones, each with the first failed step that it needs. */
function needsOf(failed: readonly Step[], steps: readonly Step[]): ReadonlyMap<string, string> {
  const after = new Map<string, Step[]>();
  for (const step of steps) {
    if (step.status !== "PENDING") continue;
    for (const id of step.dependsOn) after.set(id, [...(after.get(id) ?? []), step]);
  }
  const needs = new Map<string, string>();
  for (const { stepId } of failed) {
    const queue = [stepId];
    for (let id = queue.pop(); id !== undefined; id = queue.pop()) {
      for (const next of after.get(id) ?? []) {
        if (needs.has(next.stepId)) continue;
        needs.set(next.stepId, stepId);
        queue.push(next.stepId);
      }
    }
  }
  return needs;
}

/** Whether an attempt failed so that other steps do not start: not when a pause ended it. */
function arms(attempt: Attempt | undefined): boolean {
  return attempt?.status === "FAILED" && attempt.error?.code !== "CANCELLED_BY_PAUSE";
}

/** Whether the latest attempt passed: it was retried or skipped, or it started after the failure. */
function passed({ attempts, status }: Step, since: number): boolean {
  const last = attempts.at(-1);
  if (!last) return false;
  if ((status === "SUCCESS" || status === "SKIPPED") && (last.endedSeq ?? 0) <= since) return false;
  return status === "SKIPPED" || arms(attempts.at(-2)) || (last.startedSeq ?? 0) > since;
}

/** The position since which a failure stands without a break. */
function armedSince(steps: readonly Step[]): number {
  const spans = steps.flatMap(({ attempts }) =>
    attempts.flatMap((attempt, i) => {
      if (!arms(attempt)) return [];
      const next = attempts[i + 1];
      const to = next ? (next.startedSeq ?? next.endedSeq ?? 0) : Number.POSITIVE_INFINITY;
      return [{ from: attempt.endedSeq ?? 0, to }];
    }),
  );
  let [since, end] = [0, 0];
  for (const { from, to } of spans.toSorted((a, b) => a.from - b.from)) {
    if (from > end) since = from;
    end = Math.max(end, to);
  }
  return since;
}

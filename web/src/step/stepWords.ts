import type { Instant } from "../format/format";
import type { Attempt, Step } from "../api/model";
import { m } from "../messages";
import type { RunStore } from "../runstate/store";
import { count, duration, relative, ticking } from "../format/format";
import { ended } from "../status/look";
import { holdOf } from "../topology/hold";

const NAMED = 3;

/** The duration of the latest attempt; with "≥" when it runs and the view is stale. */
export function stepTook(
  step: Pick<Step, "startedAt" | "completedAt" | "durationMs" | "status" | "keptFrom">,
  store: RunStore,
): string | null {
  if (step.keptFrom) return null;
  if (step.durationMs !== null) return duration(step.durationMs);
  if (step.startedAt === null) return null;
  if (step.completedAt !== null) return duration(step.completedAt - step.startedAt);
  return `${store.frozen() ? "≥ " : ""}${ticking(store.now() - step.startedAt)}`;
}

/** The number of automatic tries of an attempt and the time of the last one; null for one try. */
export function triesWord(
  attempt: Pick<Attempt, "engineAttemptId" | "lastTryMs" | "status"> | undefined,
): string | null {
  if (!attempt || attempt.engineAttemptId < 2 || attempt.status === "SKIPPED") return null;
  return m.step.inTries(attempt.engineAttemptId, attempt.lastTryMs === null ? null : duration(attempt.lastTryMs));
}

/** The queue whose worker the step waits for; null for a step that needs none. */
function queueOf(step: Step): string | null {
  return step.type === "SLEEP" || step.type === "MANUAL" ? null : step.taskQueue;
}

/** The wait of a step by the present state of the other steps: its own wait is as old as its last change. */
function waitOf(step: Step, wait: NonNullable<Step["wait"]>, store: RunStore) {
  const blocking = step.dependsOn.filter((id) => {
    const status = store.step(id)?.status;
    return status !== "SUCCESS" && status !== "SKIPPED";
  });
  if (wait.kind === "RETRY") return { kind: "RETRY", named: [] } as const;
  if (step.status !== "PENDING" || wait.kind === "PERSON")
    return { kind: step.status === "FAILED" ? "OPERATOR" : "PERSON", named: [] } as const;
  const { failed, held, needs } = holdOf(store);
  const needed = blocking.filter((id) => failed.includes(id));
  const first = needs.get(step.stepId);
  if (first !== undefined) return { kind: "FAILED_STEP", named: needed.length > 0 ? needed : [first] } as const;
  if (store.header()?.status === "PAUSED" && blocking.length === 0) return { kind: "PAUSED", named: [] } as const;
  if (held.has(step.stepId)) return { kind: "FAIL_FAST", named: failed } as const;
  return blocking.length > 0
    ? ({ kind: "DEPENDENCIES", named: blocking } as const)
    : ({ kind: "WORKER", named: [] } as const);
}

/** The queue of the worker that the step waits for; null when it waits for anything else. */
export function awaitedQueue(step: Step, store: RunStore): string | null {
  return step.wait && waitOf(step, step.wait, store).kind === "WORKER" ? queueOf(step) : null;
}

/** When a worker of the queue was last seen, in words; null means never. */
export function pollerWords(seen: Instant | null, now: Instant): string {
  const ago = seen === null ? null : relative(seen, now);
  return ago === null ? m.step.pollerUnseen : m.step.pollerSeen(ago);
}

/** Why a step is not running, in words. */
export function waitWords(step: Step, store: RunStore): string | null {
  const header = store.header();
  if (header && ended(header))
    return step.status === "PENDING" && header.status === "CANCELLED" ? m.step.neverStarted : null;
  if (!step.wait) return null;
  const { kind, named } = waitOf(step, step.wait, store);
  const names = named.slice(0, NAMED).map((id) => store.step(id)?.name ?? id);
  const queue = kind === "WORKER" ? queueOf(step) : null;
  const more = named.length > NAMED ? ` and ${count(named.length - NAMED)} more` : "";
  if (kind === "FAIL_FAST") return m.step.heldBy(`${names.join(", ")}${more}`);
  return `${m.step.wait[kind]}${queue ? m.step.queueOf(queue) : ""}${named.length > 0 ? `: ${names.join(", ")}${more}` : ""}${step.wait.who ? ` (${step.wait.who})` : ""}`;
}

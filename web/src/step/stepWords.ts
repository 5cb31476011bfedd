import type { Instant } from "../format/format";
import type { Step } from "../api/model";
import { m } from "../messages";
import type { RunStore } from "../runstate/store";
import { count, duration, relative, ticking } from "../format/format";

const NAMED = 3;

/** The duration of the latest attempt; with "≥" when it runs and the view is stale. */
export function stepTook(
  step: Pick<Step, "startedAt" | "completedAt" | "durationMs" | "status">,
  store: RunStore,
): string | null {
  if (step.durationMs !== null) return duration(step.durationMs);
  if (step.startedAt === null) return null;
  if (step.completedAt !== null) return duration(step.completedAt - step.startedAt);
  return `${store.frozen() ? "≥ " : ""}${ticking(store.now() - step.startedAt)}`;
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
  const depends = wait.kind === "DEPENDENCIES" || wait.kind === "WORKER";
  const failed = blocking.filter((id) => store.step(id)?.status === "FAILED");
  const kind =
    wait.kind === "PERSON" && step.status === "FAILED"
      ? "OPERATOR"
      : !depends
        ? wait.kind
        : failed.length > 0
          ? "FAILED_STEP"
          : blocking.length > 0
            ? "DEPENDENCIES"
            : store.header()?.status === "PAUSED"
              ? "PAUSED"
              : "WORKER";
  const named =
    kind === "DEPENDENCIES"
      ? blocking
      : kind === "FAILED_STEP"
        ? failed.length > 0
          ? failed
          : wait.blockingSteps
        : [];
  return { kind, named } as const;
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
  if (!step.wait) return null;
  const { kind, named } = waitOf(step, step.wait, store);
  const queue = kind === "WORKER" ? queueOf(step) : null;
  const more = named.length > NAMED ? ` and ${count(named.length - NAMED)} more` : "";
  return `${m.step.wait[kind]}${queue ? m.step.queueOf(queue) : ""}${named.length > 0 ? `: ${named.slice(0, NAMED).join(", ")}${more}` : ""}${step.wait.who ? ` (${step.wait.who})` : ""}`;
}

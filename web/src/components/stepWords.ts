import type { Step } from "../api/model";
import { m } from "../messages";
import type { RunStore } from "../runs/store";
import { count, duration, ticking } from "../ui/format";

const NAMED = 3;

/** How long the latest attempt has taken, "≥" when it runs and now is not known. */
export function stepTook(step: Pick<Step, "startedAt" | "completedAt" | "durationMs" | "status">, store: RunStore): string | null {
  if (step.durationMs !== null) return duration(step.durationMs);
  if (step.startedAt === null) return null;
  if (step.completedAt !== null) return duration(step.completedAt - step.startedAt);
  return `${store.frozen() ? "≥ " : ""}${ticking(store.now() - step.startedAt)}`;
}

/** Why a step is not running, in words. What follows from other steps is taken from them as they are now: a step's own wait comes only with its own changes. */
export function waitWords(step: Step, store: RunStore): string | null {
  if (!step.wait) return null;
  const blocking = step.dependsOn.filter((id) => {
    const status = store.step(id)?.status;
    return status !== "SUCCESS" && status !== "SKIPPED";
  });
  const depends = step.wait.kind === "DEPENDENCIES" || step.wait.kind === "WORKER";
  const failed = blocking.filter((id) => store.step(id)?.status === "FAILED");
  const kind = step.wait.kind === "PERSON" && step.status === "FAILED" ? "OPERATOR" : !depends ? step.wait.kind : failed.length > 0 ? "FAILED_STEP" : blocking.length > 0 ? "DEPENDENCIES" : store.header()?.status === "PAUSED" ? "PAUSED" : "WORKER";
  const named = kind === "DEPENDENCIES" ? blocking : kind === "FAILED_STEP" ? (failed.length > 0 ? failed : step.wait.blockingSteps) : [];
  const more = named.length > NAMED ? ` and ${count(named.length - NAMED)} more` : "";
  return `${m.step.wait[kind]}${named.length > 0 ? `: ${named.slice(0, NAMED).join(", ")}${more}` : ""}${step.wait.who ? ` (${step.wait.who})` : ""}`;
}

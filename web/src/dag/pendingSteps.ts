// The steps of a plan's document, before any run of it has started.
import type { Step } from "../api/model";

/** Larger plans are not drawn before they run, because each key in the editor would lay them out again. */
export const MOST_STEPS = 300;

/** The parts of a step that a picture before the start needs; the rest has no value yet. */
const PENDING: Partial<Step> = {
  status: "PENDING",
  statusRaw: "PENDING",
  substatus: null,
  pendingRetry: false,
  logicalAttemptId: 1,
  attempts: [],
  wait: null,
  startedAt: null,
  completedAt: null,
  durationMs: null,
  error: null,
  skip: null,
  nodeCounts: null,
};

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

/**
 * The steps of a plan's document, also of one that is being written: entries without an id are left out. Without
 * any dependsOn the steps run one after the other.
 */
export function pendingSteps(document: unknown): Step[] {
  const list: unknown = (document as { steps?: unknown } | null)?.steps;
  if (!Array.isArray(list)) return [];
  const found = new Map<string, Record<string, unknown>>();
  for (const step of list as unknown[]) {
    const members = typeof step === "object" && step !== null ? (step as Record<string, unknown>) : {};
    const id = text(members["stepId"]);
    if (id !== null && !found.has(id)) found.set(id, members);
  }
  const ids = [...found.keys()];
  const chained = ![...found.values()].some((members) => "dependsOn" in members);
  return [...found].map(([stepId, members], i) => {
    const named = Array.isArray(members["dependsOn"]) ? (members["dependsOn"] as unknown[]) : [];
    const before = ids[i - 1];
    const dependsOn = chained
      ? before === undefined
        ? []
        : [before]
      : named.filter((id): id is string => typeof id === "string" && found.has(id));
    return {
      ...PENDING,
      stepId,
      dependsOn,
      name: text(members["name"]),
      group: text(members["group"]),
      type: (text(members["type"]) ?? "NOOP") as Step["type"],
    } as Step;
  });
}

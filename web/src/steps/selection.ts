import type { Step } from "../api/model";
import { type Medians, paceOf } from "../step/medians";
import { STEP_GROUPS, stepGroup } from "../status/stepGroup";
import type { Hold } from "../topology/hold";
import type { StepFilter, StepSort } from "../address/views";

export interface StepQuery {
  /** Empty shows all. */
  show: readonly StepFilter[];
  /** Part of a step's id or name. */
  find: string;
  group: string | null;
  sort: StepSort;
}

/** Whether a step matches the filters. `hold` names the steps that a failure keeps from starting. */
export function matches(step: Step, { show, find, group }: Omit<StepQuery, "sort">, hold: Hold): boolean {
  if (group !== null && step.group !== group) return false;
  if (show.length > 0 && !show.some((filter) => isShown(step, filter, hold))) return false;
  const wanted = find.toLowerCase();
  return (
    wanted === "" || step.stepId.toLowerCase().includes(wanted) || (step.name ?? "").toLowerCase().includes(wanted)
  );
}

function isShown(step: Step, filter: StepFilter, { held, needs }: Hold): boolean {
  switch (filter) {
    case "WAITING":
    case "RUNNING":
      return stepGroup(step) === filter.toLowerCase();
    case "HELD":
      return held.has(step.stepId);
    case "BLOCKED":
      return needs.has(step.stepId);
    default:
      return step.status === filter;
  }
}

/** The data for sorting beside the steps themselves. */
export interface SortBy {
  /** The server's time, for running steps. */
  now: number;
  medians: Medians | null;
}

/**
 * Sorts steps by the plan, by their need of a person, by duration, or by their distance above the median. Equal steps
 * keep the order of the plan.
 */
export function sortSteps(
  order: readonly string[],
  stepOf: (stepId: string) => Step | undefined,
  sort: StepSort,
  by: SortBy,
): readonly string[] {
  if (sort === "plan") return order;
  const rankOf = {
    failed: groupRank,
    took: (step: Step) => -tookMs(step, by.now),
    median: (step: Step) => -aboveMs(step, by),
  }[sort];
  const ranked = order.map((id, i) => {
    const step = stepOf(id);
    return { id, i, rank: step ? rankOf(step) : Number.POSITIVE_INFINITY };
  });
  return ranked.toSorted((a, b) => a.rank - b.rank || a.i - b.i).map(({ id }) => id);
}

function groupRank(step: Step): number {
  return STEP_GROUPS.indexOf(stepGroup(step));
}

function tookMs({ durationMs, startedAt, completedAt }: Step, now: number): number {
  return durationMs ?? (startedAt === null ? -1 : (completedAt ?? now) - startedAt);
}

/** Steps without a median come last. */
function aboveMs(step: Step, { now, medians }: SortBy): number {
  const pace = paceOf(step, medians?.get(step.stepId), now);
  if (pace === null) return Number.MIN_SAFE_INTEGER;
  return pace.kind === "usual" ? 0 : pace.kind === "slower" ? pace.byMs : -pace.byMs;
}

/** The groups of the plan, in its order. */
export function groupsOf(order: readonly string[], stepOf: (stepId: string) => Step | undefined): readonly string[] {
  return [...new Set(order.flatMap((id) => stepOf(id)?.group ?? []))];
}

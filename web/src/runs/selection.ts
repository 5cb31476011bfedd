import type { Step } from "../api/model";
import { STANDINGS, standingOf } from "./standing";
import type { StepFilter, StepSort } from "./views";

export interface StepQuery {
  /** Empty shows all. */
  show: readonly StepFilter[];
  /** Part of a step's id or name. */
  find: string;
  group: string | null;
  sort: StepSort | null;
}

/** Whether a step is asked for. */
export function matches(step: Step, { show, find, group }: Omit<StepQuery, "sort">): boolean {
  if (group !== null && step.group !== group) return false;
  if (show.length > 0 && !show.some((filter) => (filter === "WAITING" ? standingOf(step) === "waiting" : step.status === filter))) return false;
  const wanted = find.toLowerCase();
  return wanted === "" || step.stepId.toLowerCase().includes(wanted) || (step.name ?? "").toLowerCase().includes(wanted);
}

/** The order of the plan, or with what needs a person first. */
export function sortSteps(order: readonly string[], stepOf: (stepId: string) => Step | undefined, sort: StepSort | null): readonly string[] {
  if (sort === null) return order;
  const rank = (id: string): number => {
    const step = stepOf(id);
    return step ? STANDINGS.indexOf(standingOf(step)) : STANDINGS.length;
  };
  const ranked = order.map((id, i) => ({ id, i, rank: rank(id) }));
  return ranked.toSorted((a, b) => a.rank - b.rank || a.i - b.i).map(({ id }) => id);
}

/** The groups of the plan, in its order. */
export function groupsOf(order: readonly string[], stepOf: (stepId: string) => Step | undefined): readonly string[] {
  return [...new Set(order.flatMap((id) => stepOf(id)?.group ?? []))];
}

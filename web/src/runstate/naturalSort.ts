import type { Step } from "../api/model";

const NATURAL = new Intl.Collator("en", { numeric: true });

type Placed = Pick<Step, "stepId" | "dependsOn">;

/**
 * The order of the plan. Ids in alphabetical order are sorted by their numbers instead (l2 before l10), unless a step
 * would then stand before one that it waits for.
 */
export function naturalSort(steps: readonly Placed[]): readonly string[] {
  const ids = steps.map(({ stepId }) => stepId);
  if (ids.some((id, i) => i > 0 && (ids[i - 1] ?? "") >= id)) return ids;
  const counted = ids.toSorted(NATURAL.compare);
  return forward(ids, steps) && !forward(counted, steps) ? ids : counted;
}

/** Whether no step stands before one that it waits for. */
function forward(order: readonly string[], steps: readonly Placed[]): boolean {
  const at = new Map(order.map((id, i) => [id, i]));
  return steps.every(({ stepId, dependsOn }) => dependsOn.every((id) => (at.get(id) ?? -1) < (at.get(stepId) ?? 0)));
}

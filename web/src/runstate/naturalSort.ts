import type { Step } from "../api/model";

const NATURAL = new Intl.Collator("en", { numeric: true });

type Placed = Pick<Step, "stepId" | "dependsOn">;

/**
 * The order in which people see the steps. A plan that has an order of its own keeps it. The API gives most plans in
 * the alphabetical order of their ids, which says nothing: their steps come in the order in which they can run, and
 * steps of the same depth by their ids, with numbers as numbers (l2 before l10).
 */
export function naturalSort(steps: readonly Placed[]): readonly string[] {
  const ids = steps.map(({ stepId }) => stepId);
  if (ids.some((id, i) => i > 0 && (ids[i - 1] ?? "") >= id)) return ids;
  const depth = depths(steps);
  return ids.toSorted((a, b) => (depth.get(a) ?? 0) - (depth.get(b) ?? 0) || NATURAL.compare(a, b));
}

/** The length of the longest path to each step. Steps of a cycle, which no valid plan has, get what was reached. */
function depths(steps: readonly Placed[]): ReadonlyMap<string, number> {
  const depth = new Map(steps.map(({ stepId }) => [stepId, 0]));
  const after = new Map<string, string[]>();
  const missing = new Map<string, number>();
  for (const { stepId, dependsOn } of steps) {
    const known = new Set(dependsOn.filter((id) => depth.has(id)));
    missing.set(stepId, known.size);
    for (const id of known) {
      const list = after.get(id);
      if (list) list.push(stepId);
      else after.set(id, [stepId]);
    }
  }
  const ready = steps.filter(({ stepId }) => missing.get(stepId) === 0).map(({ stepId }) => stepId);
  for (let id = ready.pop(); id !== undefined; id = ready.pop()) {
    for (const next of after.get(id) ?? []) {
      depth.set(next, Math.max(depth.get(next) ?? 0, (depth.get(id) ?? 0) + 1));
      const left = (missing.get(next) ?? 1) - 1;
      missing.set(next, left);
      if (left === 0) ready.push(next);
    }
  }
  return depth;
}

import { useRunState } from "./context";
import type { RunStore } from "./store";

type Steps = Pick<RunStore, "step" | "order">;

/** The number of steps with each name, by the order of the steps, which changes when more of them become known. */
const counted = new WeakMap<readonly string[], ReadonlyMap<string, number>>();

function countsOf(store: Steps): ReadonlyMap<string, number> {
  const order = store.order();
  const known = counted.get(order);
  if (known) return known;
  const counts = new Map<string, number>();
  for (const id of order) {
    const name = store.step(id)?.name;
    if (name) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  counted.set(order, counts);
  return counts;
}

/** The title of a step of a run: its name, with its id where another step has the same name, or its id. */
export function titleOf(store: Steps, stepId: string): string {
  const name = store.step(stepId)?.name;
  if (!name) return stepId;
  return (countsOf(store).get(name) ?? 0) > 1 ? `${name} (${stepId})` : name;
}

/** The title of a step, which renders again when its name becomes known. */
export function useStepTitle(stepId: string | null): string | null {
  return useRunState((store) => (stepId === null ? null : titleOf(store, stepId)));
}

/** A step of the shown run by its title. */
export function StepTitle({ stepId }: { stepId: string }): string | null {
  return useStepTitle(stepId);
}

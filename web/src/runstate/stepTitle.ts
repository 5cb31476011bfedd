import { stepTitle } from "../format/stepTitle";
import { useRunState } from "./context";
import type { RunStore } from "./store";

/** The title of a step of a run: its name, or the id while the step is not known. */
export function titleOf(store: Pick<RunStore, "step">, stepId: string): string {
  return stepTitle(stepId, store.step(stepId)?.name);
}

/** The title of a step, which renders again when its name becomes known. */
export function useStepTitle(stepId: string | null): string | null {
  return useRunState((store) => (stepId === null ? null : titleOf(store, stepId)));
}

/** A step of the shown run by its name. */
export function StepTitle({ stepId }: { stepId: string }): string | null {
  return useStepTitle(stepId);
}

import { useCallback, useMemo } from "react";
import { useOrder, useRunStore } from "../runstate/context";
import { blocksOf, waitingSteps } from "./blocked";
import { shapeOf } from "./shape";

/** Returns a function that counts the pending steps behind a step. It stays the same while the plan does. */
export function useBlocks(): (stepId: string) => number {
  const store = useRunStore();
  const order = useOrder();
  const shape = useMemo(() => shapeOf(order.flatMap((id) => store.step(id) ?? [])), [store, order]);
  return useCallback((stepId) => blocksOf(shape, waitingSteps(store), stepId), [shape, store]);
}

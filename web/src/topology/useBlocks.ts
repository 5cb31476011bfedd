import { useCallback, useMemo } from "react";
import { useOrder, useRunStore } from "../runstate/context";
import { blocksOf } from "./blocked";
import { shapeOf } from "./shape";

/** Says how many pending steps wait behind one, for rows of steps; the same function while the plan is the same. */
export function useBlocks(): (stepId: string) => number {
  const store = useRunStore();
  const order = useOrder();
  const shape = useMemo(() => shapeOf(order.flatMap((id) => store.step(id) ?? [])), [store, order]);
  return useCallback((stepId) => blocksOf(shape, (id) => store.step(id), stepId), [shape, store]);
}

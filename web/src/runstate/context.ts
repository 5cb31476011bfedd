import { createContext, use, useCallback, useSyncExternalStore } from "react";
import type { RunHeader, Step } from "../api/model";
import type { RunStore, Verdict } from "./store";

export const RunContext = createContext<RunStore | null>(null);

export function useRunStore(): RunStore {
  const store = use(RunContext);
  if (!store) throw new Error("useRunStore needs a RunContext above it");
  return store;
}

export function useHeader(): RunHeader | null {
  const store = useRunStore();
  return useSyncExternalStore(store.subscribe, store.header);
}

export function useOrder(): readonly string[] {
  const store = useRunStore();
  return useSyncExternalStore(store.subscribe, store.order);
}

export function useVerdict(): Verdict {
  const store = useRunStore();
  return useSyncExternalStore(store.subscribe, store.verdict);
}

/** One step; renders again only when that step changes. */
export function useStep(stepId: string): Step | undefined {
  const store = useRunStore();
  const subscribe = useCallback((listener: () => void) => store.subscribeStep(stepId, listener), [store, stepId]);
  return useSyncExternalStore(subscribe, () => store.step(stepId));
}

/** One plain value of the store; renders again only when that value changes. */
export function useRunState<T extends string | number | boolean | null>(select: (store: RunStore) => T): T {
  const store = useRunStore();
  return useSyncExternalStore(store.subscribe, () => select(store));
}

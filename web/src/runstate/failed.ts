import { STEP_GROUPS, stepGroup } from "../status/stepGroup";
import type { RunStore } from "./store";

/**
 * The failed step after (or before) `from` in an order, which continues at its beginning; null when no step has failed.
 */
export function nextFailed(store: RunStore, from: string | null, way: 1 | -1, order = store.order()): string | null {
  const start = from === null ? (way === 1 ? -1 : 0) : order.indexOf(from);
  for (let i = 1; i <= order.length; i++) {
    const id = order[(start + way * i + 2 * order.length) % order.length];
    if (id !== undefined && store.step(id)?.status === "FAILED") return id;
  }
  return null;
}

/** The step that needs a person most: failed, then waiting, then running, then the first. */
export function worstStep(store: RunStore, ids: readonly string[] = store.order()): string | null {
  let best: string | null = null;
  let rank = Number.POSITIVE_INFINITY;
  for (const id of ids) {
    const step = store.step(id);
    const mine = step ? STEP_GROUPS.indexOf(stepGroup(step)) : STEP_GROUPS.length;
    if (mine < rank) {
      rank = mine;
      best = id;
    }
  }
  return best;
}

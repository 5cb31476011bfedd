// The number of items that need attention, for the bar of every page: one stream for the tab.
import { useSyncExternalStore } from "react";
import { type Following, follow } from "../api/follow";
import { AttentionCountDocument } from "../api/gen/graphql";

/** A count of this many means "this many or more". */
export const MANY = 100;

let count: number | null = null;
let stream: Following | null = null;
const listeners = new Set<() => void>();

function set(next: number | null): void {
  if (next === count) return;
  count = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  stream ??= follow(
    AttentionCountDocument,
    {},
    {
      next: ({ attentionUpdates }) => set(attentionUpdates.count ?? count),
      refused: () => set(null),
    },
  );
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    stream?.close();
    stream = null;
  };
}

/** Null before the first answer, and for a viewer who may read no run. */
export function useAttentionCount(): number | null {
  return useSyncExternalStore(subscribe, () => count);
}

// What needs attention, live: one stream for the tab, while a component uses it.
import { useSyncExternalStore } from "react";
import { type Following, follow } from "../api/follow";
import { AttentionUpdatesDocument } from "../api/gen/graphql";
import { type AttentionState, NOTHING, receive } from "./state";

const FIRST = 100;

let state = NOTHING;
let stream: Following | null = null;
const listeners = new Set<() => void>();

function set(next: AttentionState): void {
  state = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  stream ??= follow(
    AttentionUpdatesDocument,
    { first: FIRST },
    {
      next: ({ attentionUpdates }) => set(receive(state, attentionUpdates, Date.now())),
      refused: (error) => set({ ...NOTHING, error }),
    },
  );
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    stream?.close();
    stream = null;
    state = NOTHING;
  };
}

export function useAttention(): AttentionState {
  return useSyncExternalStore(subscribe, () => state);
}

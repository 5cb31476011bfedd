// The live inbox of the viewer: one stream for the tab, while a component uses it.
import { useSyncExternalStore } from "react";
import { type Following, follow } from "../api/follow";
import { InboxUpdatesDocument } from "../api/gen/graphql";
import { type InboxState, NOTHING, receive } from "./state";

let state = NOTHING;
let stream: Following | null = null;
const listeners = new Set<() => void>();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  stream ??= follow(
    InboxUpdatesDocument,
    {},
    {
      next: ({ inboxUpdates }) => set(receive(state, inboxUpdates)),
      refused: () => set(NOTHING),
    },
  );
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    stream?.close();
    stream = null;
  };
}

function set(next: InboxState): void {
  if (next === state) return;
  state = next;
  for (const listener of listeners) listener();
}

export function useInbox(): InboxState {
  return useSyncExternalStore(subscribe, () => state);
}

import type { InboxUpdatesSubscription } from "../api/gen/graphql";

export interface InboxState {
  /** 100 stands for 100 or more; null until something could be read. */
  count: number | null;
  /** Grows whenever what waits has changed: time to ask for the lists again. */
  moved: number;
}

export const MANY = 100;
export const NOTHING: InboxState = { count: null, moved: 0 };

/** What a frame makes of the state. */
export function receive(state: InboxState, frame: InboxUpdatesSubscription["inboxUpdates"]): InboxState {
  const moves = frame.reset || frame.changed.length > 0 || frame.removed.length > 0;
  if (!moves && frame.count === state.count) return state;
  return { count: frame.count ?? state.count, moved: state.moved + (moves ? 1 : 0) };
}

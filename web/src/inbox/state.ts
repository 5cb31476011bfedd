import type { InboxUpdatesSubscription } from "../api/gen/graphql";

export interface InboxState {
  /** 100 means 100 or more; null before the first answer. */
  count: number | null;
  /** Grows with each change of the inbox, so that the lists are asked for again. */
  moved: number;
}

export const MANY = 100;
export const NOTHING: InboxState = { count: null, moved: 0 };

/** The state after a frame. */
export function receive(state: InboxState, frame: InboxUpdatesSubscription["inboxUpdates"]): InboxState {
  const moves = frame.reset || frame.changed.length > 0 || frame.removed.length > 0;
  if (!moves && frame.count === state.count) return state;
  return { count: frame.count ?? state.count, moved: state.moved + (moves ? 1 : 0) };
}

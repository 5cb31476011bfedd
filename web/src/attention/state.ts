import type { AttentionFieldsFragment, AttentionUpdatesSubscription } from "../api/gen/graphql";
import { instant } from "../api/model";

export type AttentionItem = AttentionFieldsFragment;

export interface AttentionState {
  /** Null before the first answer. */
  items: readonly AttentionItem[] | null;
  /** 100 means 100 or more. */
  count: number;
  /** The store does not answer, so the items may be old. */
  stale: boolean;
  /** The server's clock minus the local one. */
  offset: number;
  error: unknown;
}

export const NOTHING: AttentionState = { items: null, count: 0, stale: false, offset: 0, error: null };

/** The state after a frame. A frame without items changes none. */
export function receive(
  state: AttentionState,
  frame: AttentionUpdatesSubscription["attentionUpdates"],
  now: number,
): AttentionState {
  return {
    items: frame.items ?? state.items,
    count: frame.count ?? state.count,
    stale: frame.sync === "STALE",
    offset: frame.asOf === null ? state.offset : instant(frame.asOf) - now,
    error: null,
  };
}

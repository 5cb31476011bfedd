import type { RunEvent } from "../api/model";

const KEPT = 20_000;

export interface EventLog {
  /** In the order of the log, without duplicates. */
  events: readonly RunEvent[];
  /** The number of oldest events that were dropped. */
  dropped: number;
  /** A frame has arrived, even an empty one. */
  received: boolean;
}

export const NO_EVENTS: EventLog = { events: [], dropped: 0, received: false };

/** Adds the new events of a frame; duplicates are ignored. */
export function collectEvents(log: EventLog, frame: { reset: boolean; events: readonly RunEvent[] }): EventLog {
  const held = frame.reset ? NO_EVENTS : log;
  const last = held.events.at(-1)?.runSeq ?? 0;
  const fresh = frame.events.filter((event) => event.runSeq > last);
  const events = fresh.length === 0 ? held.events : [...held.events, ...fresh];
  const over = Math.max(0, events.length - KEPT);
  return { events: over > 0 ? events.slice(over) : events, dropped: held.dropped + over, received: true };
}

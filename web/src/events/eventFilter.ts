import type { RunEvent } from "../api/model";

/** An event of the log, or a range of unused positions. */
export type LogRow =
  | {
      kind: "event";
      event: RunEvent;
      /** Milliseconds since the event before it in the log; null for the first. */
      after: number | null;
    }
  | { kind: "unused"; from: number; to: number };

/**
 * The rows of the log, the newest first: events of the wanted types, and of the wanted steps, up to a position. Unused
 * positions are rows of their own, unless only some events are wanted.
 */
export function logRows(
  events: readonly RunEvent[],
  types: readonly string[],
  upTo: number | null,
  ofStep: ((event: RunEvent) => boolean) | null = null,
): LogRow[] {
  const wanted = new Set(types);
  const rows: LogRow[] = [];
  let before: number | null = null;
  let beforeAt: number | null = null;
  for (const event of events) {
    if (upTo !== null && event.runSeq > upTo) break;
    if (before !== null && event.runSeq - before > 1 && wanted.size === 0 && ofStep === null)
      rows.push({ kind: "unused", from: before + 1, to: event.runSeq - 1 });
    before = event.runSeq;
    if ((wanted.size === 0 || wanted.has(event.eventType)) && (ofStep === null || ofStep(event)))
      rows.push({ kind: "event", event, after: beforeAt === null ? null : Math.max(0, event.persistedAt - beforeAt) });
    beforeAt = event.persistedAt;
  }
  return rows.toReversed();
}

/** The step that an event is about, also that of a signal; null for an event of the run alone. */
export function stepOf({ stepId, payload }: Pick<RunEvent, "stepId" | "payload">): string | null {
  if (stepId !== null) return stepId;
  const named: unknown = typeof payload === "object" && payload !== null && "stepId" in payload ? payload.stepId : null;
  return typeof named === "string" && named !== "" ? named : null;
}

/** The types of the events up to a position, by name, with their number. */
export function typesOf(events: readonly RunEvent[], upTo: number | null): [string, number][] {
  const counts = new Map<string, number>();
  for (const { eventType, runSeq } of events)
    counts.set(eventType, (counts.get(eventType) ?? 0) + (upTo === null || runSeq <= upTo ? 1 : 0));
  return [...counts].toSorted(([a], [b]) => a.localeCompare(b));
}

/** Writes events as JSON Lines, in the order of the log. */
export function eventLines(events: readonly RunEvent[]): string {
  return events
    .map(
      ({ persistedAt, ...event }) =>
        `${JSON.stringify({ ...event, persistedAt: new Date(persistedAt).toISOString() })}\n`,
    )
    .join("");
}

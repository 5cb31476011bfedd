// The limits of active runs that keep runs waiting.
import type { QueueQuery } from "../api/gen/graphql";
import { m } from "../messages";

type Entry = QueueQuery["queue"]["edges"][number]["node"];

/** A limit whose slots are in use; `projectId` is empty unless the limit belongs to a project. */
export type Slots = NonNullable<Entry["slots"]> & { projectId: string };

/** Each limit once, in the order of the entries. */
export function slotsOf(entries: readonly Pick<Entry, "slots" | "projectId" | "waitsFor">[]): Slots[] {
  const found = new Map<string, Slots>();
  for (const { slots, projectId, waitsFor } of entries) {
    if (!slots || waitsFor === "HOLD") continue;
    const use = { ...slots, projectId: slots.scope === "PROJECT" ? projectId : "" };
    const key = `${use.scope} ${use.projectId}`;
    if (!found.has(key)) found.set(key, use);
  }
  return [...found.values()];
}

/** How many runs must end before a waiting run starts: more than one after the limit was lowered. */
export function endsNeeded({ active, max }: Pick<Slots, "active" | "max">): number {
  return active === null || max === null ? 1 : Math.max(1, active - max + 1);
}

export function slotsInWords({ scope, active, max, projectId }: Slots): string {
  return `${m.queue.slots[scope](active ?? 0, max ?? 0, projectId)} ${m.queue.startsAfter(endsNeeded({ active, max }))}`;
}

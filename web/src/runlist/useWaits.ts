// What keeps the waiting runs of the list: a place in the queue, or people.
import { WaitsDocument, type WaitsQuery } from "../api/gen/graphql";
import type { RunRow } from "../api/model";
import { useQuery } from "../api/useQuery";
import { m } from "../messages";

const EVERY_MS = 15_000;
const NONE: ReadonlyMap<string, string> = new Map();

function isWaiting({ status, substatus }: RunRow): boolean {
  return status === "PENDING" || substatus === "WAITING_MANUAL";
}

/** The words of each run that waits for a slot, an approval or a manual step, by run id. */
export function waitsInWords({ queue, attention }: WaitsQuery): ReadonlyMap<string, string> {
  return new Map([
    ...queue.edges.map(({ node }) => [node.runId, queuedInWords(node)] as const),
    ...attention.edges.flatMap(({ node }) => {
      const words = personInWords(node);
      return words === null ? [] : [[node.runId, words] as const];
    }),
  ]);
}

function queuedInWords({ position, waitsFor, slots }: WaitsQuery["queue"]["edges"][number]["node"]): string {
  const why =
    waitsFor === "PLACE" && slots?.active && slots.active === slots.max
      ? m.runs.slotsInUse(slots.max)
      : waitsFor && m.queue.waits[waitsFor];
  return [position !== null && m.runs.position(position), why].filter(Boolean).join(": ");
}

function personInWords({
  kind,
  actions,
  whoCould,
  stuck,
}: WaitsQuery["attention"]["edges"][number]["node"]): string | null {
  if (kind !== "APPROVAL" && kind !== "MANUAL_TASK") return null;
  const mine = actions.includes(m.attention.answers[kind].action);
  if (stuck) return m.attention.stuck(whoCould, mine);
  if (mine) return m.runs.waitsForYou;
  return whoCould.length > 0 ? m.attention.waitsFor(whoCould) : m.attention.nobody[kind];
}

/** Asked for while a shown run waits, and again when another one does. Without an answer the rows say nothing. */
export function useWaits(runs: readonly RunRow[]): ReadonlyMap<string, string> {
  const waiting = runs.filter(isWaiting);
  const { last } = useQuery(WaitsDocument, waiting.length === 0 ? null : {}, waitsInWords, {
    every: EVERY_MS,
    refetchOn: waiting.map(({ runId, substatus }) => `${runId}${substatus}`).join(" "),
  });
  return waiting.length === 0 ? NONE : (last ?? NONE);
}

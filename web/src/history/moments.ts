// The moments of a run's log at which the time machine can stop.
import { MomentBeforeDocument, MomentsAfterDocument } from "../api/gen/graphql";
import type { Instant } from "../format/format";
import { instant } from "../api/model";
import { request } from "../api/request";

const PAGE = 200;
/** The shortest and the longest time between two played moments, so that quiet hours are skipped. */
const TICK_MS = 200;
const PATIENCE_MS = 2_000;

export const SPEEDS = [1, 5, 10, 50] as const;
export type Speed = (typeof SPEEDS)[number];

export interface Moment {
  runSeq: number;
  at: Instant;
}

/** The next moments after a position, at most 200. Unused positions are no moments. Throws ApiError. */
export async function momentsAfter(runId: string, after: number, first = PAGE): Promise<Moment[]> {
  const { run } = await request(MomentsAfterDocument, { runId, after, first });
  return (run?.events.edges ?? []).map(({ node }) => ({ runSeq: node.runSeq, at: instant(node.persistedAt) }));
}

/** The last moment before a position, or null at the beginning. Throws ApiError. */
export async function momentBefore(runId: string, before: number): Promise<Moment | null> {
  const { run } = await request(MomentBeforeDocument, { runId, before });
  const node = run?.events.edges[0]?.node;
  return node ? { runSeq: node.runSeq, at: instant(node.persistedAt) } : null;
}

/** The next stop when the log is played, and the wait before it in milliseconds. Moments within one tick are joined. */
export function nextStop(
  moments: readonly Moment[],
  from: Instant,
  speed: Speed,
): { stop: Moment; waitMs: number } | null {
  const [first] = moments;
  if (!first) return null;
  const horizon = first.at + TICK_MS * speed;
  const stop = moments.findLast((moment) => moment.at <= horizon) ?? first;
  return { stop, waitMs: Math.min(PATIENCE_MS, Math.max(TICK_MS, (stop.at - from) / speed)) };
}

import type { Instant } from "../format/format";
import { DAY_MS, type Zone } from "../format/format";
import { momentOf, type RunQuery } from "./query";

export const BUCKETS = 96;
const MOST_MS = 31 * DAY_MS;

export interface Span {
  from: Instant;
  to: Instant;
}

/** The span of the bars: that of the query, at most 31 days, else the last 24 hours. */
export function spanOf({ from, to }: RunQuery, now: Instant, zone: Zone): Span {
  const end = momentOf(to, now, zone) ?? now;
  const begin = momentOf(from, now, zone) ?? end - DAY_MS;
  return { from: begin < end ? Math.max(begin, end - MOST_MS) : end - DAY_MS, to: end };
}

function clamp(part: number): number {
  return Math.min(1, Math.max(0, part));
}

/** The span between two positions on the bars (fractions of their width), at least one bar. */
export function brushed({ from, to }: Span, a: number, b: number): Span {
  const step = (to - from) / BUCKETS;
  const first = Math.min(BUCKETS - 1, Math.floor(clamp(Math.min(a, b)) * BUCKETS));
  const last = Math.max(first + 1, Math.ceil(clamp(Math.max(a, b)) * BUCKETS));
  return { from: from + first * step, to: from + last * step };
}

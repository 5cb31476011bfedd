import type { Instant } from "../format/format";

export interface Span {
  from: Instant;
  to: Instant;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const STEPS = [
  100,
  200,
  500,
  SECOND,
  2 * SECOND,
  5 * SECOND,
  10 * SECOND,
  15 * SECOND,
  30 * SECOND,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  24 * HOUR,
  48 * HOUR,
];
/** The shortest span: durations are shown to a tenth of a second. */
export const LEAST = 500;

/** Round times at least `apart` pixels from each other. */
export function ticks({ from, to }: Span, width: number, apart: number): { at: Instant[]; step: number } {
  const least = ((to - from) / Math.max(1, width)) * apart;
  const step = STEPS.find((candidate) => candidate >= least) ?? Math.ceil(least / (48 * HOUR)) * 48 * HOUR;
  const at: Instant[] = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) at.push(time);
  return { at, step };
}

/** From the run's start to its end. While it runs, there is room ahead, so that the axis changes rarely. */
export function wholeSpan(startedAt: Instant, endedAt: Instant | null, now: Instant): Span {
  if (endedAt !== null) return { from: startedAt, to: Math.max(endedAt, startedAt + LEAST) };
  const lasted = Math.max(LEAST, now - startedAt);
  let room = 10 * SECOND;
  while (room < lasted * 1.02) room *= 1.25;
  return { from: startedAt, to: startedAt + room };
}

/** The part of an idle wait that is shown after the last thing that happened. */
const IDLE_PART = 0.15;

/**
 * The span that a run opens with: the whole, but for a long wait at its end in which nothing runs. Such a wait would
 * squeeze all bars into a corner.
 */
export function openingSpan(whole: Span, lastActivity: Instant | null): Span {
  if (lastActivity === null) return whole;
  const busy = Math.max(LEAST, lastActivity - whole.from);
  const to = whole.from + busy * (1 + IDLE_PART);
  return to < whole.to - busy ? { from: whole.from, to } : whole;
}

/** A span within another, not shorter than the shortest span. */
export function within({ from, to }: Span, whole: Span): Span {
  const length = Math.min(whole.to - whole.from, Math.max(LEAST, to - from));
  const start = Math.min(Math.max(whole.from, from), whole.to - length);
  return { from: start, to: start + length };
}

/** Zooms a span around a fixed time. */
export function zoomedSpan({ from, to }: Span, factor: number, around: Instant, whole: Span): Span {
  return within({ from: around - (around - from) * factor, to: around + (to - around) * factor }, whole);
}

/** The position of a time in a span, in percent of its length. */
export function percent(time: Instant, { from, to }: Span): number {
  return ((time - from) / (to - from)) * 100;
}

/** A span in the form of the address: milliseconds since the start. */
export function spanText({ from, to }: Span, startedAt: Instant): string {
  return `${Math.max(0, Math.round(from - startedAt))}-${Math.max(0, Math.round(to - startedAt))}`;
}

export function spanOf(text: string, startedAt: Instant): Span | null {
  const [from, to] = text.split("-").map(Number);
  return from !== undefined && to !== undefined && to > from ? { from: startedAt + from, to: startedAt + to } : null;
}

/** In percent of a track, the room that a duration needs. */
const ROOM = 12;

/** The place of the duration: behind its bar, before it where there is no room, else on its end. */
export function besideBar(start: number, end: number): { left?: string; right?: string } {
  if (end <= 100 - ROOM) return { left: `${end}%` };
  return { right: start >= ROOM ? `${100 - start}%` : "0" };
}
